// Problem::parse: refuses with Error, or gives a problem whose print parses back to it.
#include "fuzz_target.h"
#include "tessera/error.h"
#include "tessera/problem.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::Problem p;
  try {
    p = tessera::Problem::parse(text_of(data, size));
  } catch (const tessera::Error& e) {
    require(e.code() == tessera::ErrorCode::bad_input, "a parser refuses with bad_input");
    return 0;
  }
  const std::string printed = to_string(p);
  const auto again = tessera::Problem::parse(printed);
  require(again == p, "parsing the print is the identity");
  require(to_string(again) == printed, "printing is stable");
  require(hash(again) == hash(p), "equal problems hash equally");
  return 0;
}
