// parse_arch: refuses with Error, or gives a spec that survives its own JSON form.
#include "core/arch_spec.h"
#include "fuzz_target.h"
#include "tessera/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::ArchSpec spec;
  try {
    spec = tessera::parse_arch(text_of(data, size), "fuzz");
  } catch (const tessera::Error& e) {
    require(e.code() == tessera::ErrorCode::bad_input, "a parser refuses with bad_input");
    return 0;
  }
  const std::string printed = to_json(spec).dump();
  require(to_json(tessera::parse_arch(printed, "print")).dump() == printed, "printing is stable");
  return 0;
}
