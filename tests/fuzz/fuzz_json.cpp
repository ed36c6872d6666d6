// Json::parse: refuses with Error, or gives a value whose print is stable.
#include "fuzz_target.h"
#include "tessera/error.h"
#include "tessera/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::Json value;
  try {
    value = tessera::Json::parse(text_of(data, size), "fuzz");
  } catch (const tessera::Error& e) {
    require(e.code() == tessera::ErrorCode::bad_input, "a parser refuses with bad_input");
    return 0;
  }
  const std::string printed = value.dump();
  require(tessera::Json::parse(printed).dump() == printed, "printing is stable");
  return 0;
}
