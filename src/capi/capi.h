// What the files of this layer share: errors at the border, texts, and the objects behind handles.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "capi/handles.h"
#include "core/json_values.h"
#include "tessera/dispatcher.h"
#include "tessera/json.h"
#include "tessera/registry.h"
#include "tessera/tessera.h"

namespace tessera::capi {

struct DispatcherObject;

struct KernelObject {
  const Kernel* kernel = nullptr;
  std::shared_ptr<DispatcherObject> owner;  // lives as long as a run of its kernels
  BuildInfo build{};
};

struct DispatcherObject : std::enable_shared_from_this<DispatcherObject> {
  explicit DispatcherObject(DispatcherOptions options) : dispatcher(std::move(options)) {}
  Dispatcher dispatcher;
  std::mutex mutex;
  std::unordered_map<const Kernel*, tsr_kernel*> handles;  // of the kernels got so far
  bool destroyed = false;                                  // its kernels' handles too: there are no more
};

struct RegistryObject {
  std::shared_ptr<Registry> registry;
};

using Dispatchers = HandleTable<DispatcherObject, Kind::dispatcher>;
using Kernels = HandleTable<KernelObject, Kind::kernel>;
using Registries = HandleTable<RegistryObject, Kind::registry>;

// Never destroyed: threads may still call while the process ends.
Dispatchers& dispatchers();
Kernels& kernels();
Registries& registries();

// The object of a live handle; Error(bad_input) naming what it should have been, Error(device) in a child
// that was forked after a dispatcher was created.
Dispatchers::Held checked(tsr_dispatcher* handle);
Kernels::Held checked(tsr_kernel* handle);
Registries::Held checked(tsr_registry* handle);

// Called before the first use of a device: from here on a forked child is refused.
void note_device_use();
void refuse_forked_child();

// Remembers the error in flight for tsr_last_error().
tsr_status fail() noexcept;
tsr_status fail(const Error& error) noexcept;

// Runs `body`, whose errors become a status: nothing is thrown into C.
template <class F>
tsr_status guarded(F&& body) noexcept {
  try {
    body();
    return TSR_OK;
  } catch (...) { return fail(); }
}

// A text for the caller to free.
char* copy_text(std::string_view text);

// The argument, or Error(bad_input) naming it when it is null.
std::string_view text_argument(const char* text, std::string_view name);
void require_out(const void* out, std::string_view name);

// The object a caller passed as text; {} for null.
Json object_argument(const char* json, std::string_view name);

// A member that is text, or `otherwise` where it is absent.
std::string text_member(Members& in, std::string_view key, std::string_view otherwise = {});

// The row of a table of actions that the member "action" names.
template <class Row, size_t N>
const Row& action_of(Members& in, const Row (&actions)[N]) {
  std::array<std::string_view, N> names;
  for (size_t i = 0; i < N; ++i) names[i] = actions[i].name;
  return actions[static_cast<size_t>(read_word(in.at("action"), names))];
}

// {"device": ..., ...} without a registry and a rank function. `origin` is named in errors.
DispatcherOptions dispatcher_options(const Json& json, std::string_view origin);

// The database of measurements that a member "database" names: without one the program's, "" for "none".
std::string database_path(const Json* given);

// Problems, one a line; blank lines and what follows a '#' are left out.
std::vector<Problem> problem_lines(std::string_view text);

std::function<void(size_t, size_t, const std::string&)> progress_function(tsr_progress progress, void* user);

using JobProgress = std::function<void(size_t, size_t, const std::string&)>;

// Jobs that measure in child processes.
Json tune_job(const Json& options, const JobProgress& progress);
Json sweep_job(const Json& options, const JobProgress& progress);
Json train_job(const Json& options, const JobProgress& progress);
Json evaluate_job(const Json& options, const JobProgress& progress);

// tsr_describe, tsr_job.
Json describe(std::string_view what, std::string_view text);
Json run_job(std::string_view name, const Json& options, tsr_progress progress, void* user);

}  // namespace tessera::capi
