#include "tessera/registry.h"

#include "capi/capi.h"

using namespace tessera;
using namespace tessera::capi;

extern "C" {

tsr_status tsr_registry_create(const char* name, const char* text, tsr_registry** registry) {
  return guarded([&] {
    require_out(registry, "registry");
    auto object = std::make_shared<RegistryObject>(
        RegistryObject{Registry::parse(text ? text : "", name ? name : "default")});
    *registry = static_cast<tsr_registry*>(registries().add(std::move(object)));
  });
}

void tsr_registry_destroy(tsr_registry* registry) { registries().remove(registry); }

tsr_status tsr_registry_add(tsr_registry* registry, const char* text, size_t* added) {
  return guarded([&] {
    const auto held = checked(registry);
    Registry& r = *held->registry;
    const size_t count = r.merge(*Registry::parse(text_argument(text, "the declarations"), r.name()));
    if (added) *added = count;
  });
}

tsr_status tsr_registry_filter(tsr_registry* registry, tsr_keep keep, void* user, size_t* dropped) {
  return guarded([&] {
    if (!keep) throw Error(ErrorCode::bad_input, "the keep function is null");
    const size_t count = checked(registry)->registry->filter(
        [&](const KernelDecl& d) { return keep(user, to_json(d).dump().c_str()) != 0; });
    if (dropped) *dropped = count;
  });
}

tsr_status tsr_registry_json(tsr_registry* registry, char** json) {
  return guarded([&] {
    require_out(json, "answer");
    *json = copy_text(checked(registry)->registry->to_json().dump());
  });
}

}  // extern "C"
