// KernelConfig::parse and its JSON form: both refuse with a reason or round-trip.
#include "fuzz_target.h"
#include "tessera/kernel_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string why;
  const auto c = tessera::KernelConfig::parse(text_of(data, size), &why);
  if (!c) {
    require(!why.empty(), "a refusal says why");
    return 0;
  }
  const auto again = tessera::KernelConfig::parse(to_string(*c), &why);
  require(again && *again == *c, "parsing the print is the identity");
  require(tessera::config_from_json(to_json(*c)) == *c, "the JSON form round-trips");
  return 0;
}
