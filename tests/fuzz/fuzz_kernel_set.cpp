// Registry::parse: refuses with Error, or gives declarations that survive the JSON form.
#include "fuzz_target.h"
#include "tessera/error.h"
#include "tessera/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::shared_ptr<tessera::Registry> registry;
  try {
    registry = tessera::Registry::parse(text_of(data, size));
  } catch (const tessera::Error& e) {
    require(e.code() == tessera::ErrorCode::bad_input, "a parser refuses with bad_input");
    return 0;
  }
  const tessera::Json json = registry->to_json();
  require(tessera::Registry::from_json(tessera::Json::parse(json.dump()))->all() == registry->all(),
          "the JSON form round-trips");
  return 0;
}
