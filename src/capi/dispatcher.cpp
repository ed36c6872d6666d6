#include "tessera/dispatcher.h"

#include "base/interrupt.h"
#include "capi/capi.h"
#include "core/json_values.h"
#include "runtime/explanation.h"
#include "tessera/error.h"
#include "tune/run_report.h"

using namespace tessera;
using namespace tessera::capi;

namespace {

RankCallback rank_callback(tsr_rank rank, void* user) {
  return [=](const Problem& problem, std::span<const Candidate> candidates) {
    std::vector<std::string> texts;
    texts.reserve(candidates.size());
    std::vector<tsr_candidate> rows;
    rows.reserve(candidates.size());
    for (const Candidate& c : candidates) {
      texts.push_back(to_string(c.config));
      rows.push_back({texts.back().c_str(), c.predicted_us});
    }
    std::vector<size_t> order(candidates.size());
    const size_t count = rank(user, to_string(problem).c_str(), rows.data(), rows.size(), order.data());
    if (count > candidates.size())
      throw Error(ErrorCode::bad_input, "the rank callback failed", "see what it reported");
    order.resize(count);
    return order;
  };
}

bool read_flag(Members& in, std::string_view key, bool otherwise) {
  const Json* v = in.find(key);
  return v ? v->as_bool() : otherwise;
}

RunOptions run_options(const Json& json) {
  return at("options", [&] {
    RunOptions o;
    Members in(json);
    if (const Json* v = in.find("seed")) o.seed = static_cast<uint64_t>(read_count(*v, 0));
    if (read_flag(in, "integers", false)) o.fill = FillKind::integers;
    o.verify = read_flag(in, "verify", o.verify);
    o.cold = read_flag(in, "cold", o.cold);
    if (const Json* v = in.find("budget_ms")) o.budget_ms = read_number(*v, 0);
    in.finish();
    return o;
  });
}

Json explain(Dispatcher& dispatcher, const Problem& problem, const Json& options) {
  const std::string arch = dispatcher.describe().at("arch").as_string();
  Members in(options);
  const Json* suggest = in.find("suggest");
  const bool rejected = read_flag(in, "rejected", false);
  in.finish();
  if (!suggest) return explanation_json(problem, arch, dispatcher.explain(problem, rejected));
  return correction_json(problem, arch,
                         dispatcher.correct(problem, KernelConfig::read(suggest->as_string())));
}

tsr_kernel* handle_of(DispatcherObject& owner, const Kernel& kernel, const BuildInfo& build) {
  std::lock_guard lock(owner.mutex);
  if (owner.destroyed) throw Error(ErrorCode::bad_input, "the dispatcher was destroyed meanwhile");
  if (const auto known = owner.handles.find(&kernel); known != owner.handles.end()) return known->second;
  auto object = std::make_shared<KernelObject>(KernelObject{&kernel, owner.shared_from_this(), build});
  auto* const handle = static_cast<tsr_kernel*>(kernels().add(std::move(object)));
  try {
    owner.handles.emplace(&kernel, handle);
  } catch (...) {
    kernels().remove(handle);
    throw;
  }
  return handle;
}

}  // namespace

extern "C" {

tsr_status tsr_dispatcher_create(const char* options, tsr_registry* registry, tsr_rank rank, void* user,
                                 tsr_dispatcher** dispatcher) {
  return guarded([&] {
    require_out(dispatcher, "dispatcher");
    refuse_forked_child();
    const Json json = object_argument(options, "options");
    DispatcherOptions o = dispatcher_options(json, "options");
    if (registry) o.registry = checked(registry)->registry;
    if (rank) {
      if (!json.find("policy")) o.policy = Policy::callback;
      o.rank = rank_callback(rank, user);
    }
    note_device_use();
    *dispatcher =
        static_cast<tsr_dispatcher*>(dispatchers().add(std::make_shared<DispatcherObject>(std::move(o))));
  });
}

void tsr_dispatcher_destroy(tsr_dispatcher* dispatcher) {
  const auto object = dispatchers().find(dispatcher);
  if (!object || !dispatchers().remove(dispatcher)) return;
  std::lock_guard lock(object->mutex);
  object->destroyed = true;
  for (const auto& [kernel, handle] : object->handles) kernels().remove(handle);
}

tsr_status tsr_dispatcher_info(tsr_dispatcher* dispatcher, char** json) {
  return guarded([&] {
    require_out(json, "answer");
    const auto held = checked(dispatcher);
    const Dispatcher& d = held->dispatcher;
    *json = copy_text(d.describe().set("policy", to_string(d.options().policy)).dump());
  });
}

tsr_status tsr_get(tsr_dispatcher* dispatcher, const char* problem, tsr_kernel** kernel) {
  return guarded([&] {
    require_out(kernel, "kernel");
    const auto object = checked(dispatcher);
    const Problem p = Problem::parse(text_argument(problem, "the problem"));
    BuildInfo build;
    const Kernel& got = object->dispatcher.get(p, &build);
    *kernel = handle_of(*object, got, build);
  });
}

tsr_status tsr_build(tsr_dispatcher* dispatcher, const char* problems, int jobs, tsr_progress progress,
                     void* user, char** json) {
  return guarded([&] {
    require_out(json, "answer");
    const auto object = checked(dispatcher);
    const auto list = problem_lines(text_argument(problems, "the list of problems"));
    const auto errors = object->dispatcher.build(list, jobs, progress_function(progress, user));
    throw_if_interrupted();
    *json = copy_text(write_strings(errors).dump());
  });
}

tsr_status tsr_explain(tsr_dispatcher* dispatcher, const char* problem, const char* options, char** json) {
  return guarded([&] {
    require_out(json, "answer");
    const auto object = checked(dispatcher);
    const Problem p = Problem::parse(text_argument(problem, "the problem"));
    *json = copy_text(explain(object->dispatcher, p, object_argument(options, "options")).dump());
  });
}

tsr_status tsr_emit(tsr_dispatcher* dispatcher, const char* problem, int whole, char** text) {
  return guarded([&] {
    require_out(text, "text");
    const auto object = checked(dispatcher);
    const Problem p = Problem::parse(text_argument(problem, "the problem"));
    *text = copy_text(object->dispatcher.emit(p, whole != 0));
  });
}

tsr_status tsr_measure(tsr_dispatcher* dispatcher, const char* problem, const char* options, char** json) {
  return guarded([&] {
    require_out(json, "answer");
    const auto held = checked(dispatcher);
    Dispatcher& d = held->dispatcher;
    const Problem p = Problem::parse(text_argument(problem, "the problem"));
    const RunReport report = run_report(d, p, run_options(object_argument(options, "options")));
    *json = copy_text(run_report_json(d, p, report).dump());
  });
}

tsr_status tsr_run(tsr_dispatcher* dispatcher, const char* problem, const tsr_buffers* buffers) {
  tsr_kernel* kernel = nullptr;
  const tsr_status status = tsr_get(dispatcher, problem, &kernel);
  return status ? status : tsr_kernel_run(kernel, buffers);
}

}  // extern "C"
