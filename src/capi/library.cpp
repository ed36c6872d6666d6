// Errors at the border, handles, and the functions that need neither dispatcher nor kernel.
#include <cstdlib>
#include <cstring>
#include <new>

#include "backend/backend.h"
#include "base/forked.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "capi/capi.h"
#include "runtime/selection.h"
#include "tessera/error.h"
#include "tessera/tune_db.h"

namespace tessera::capi {
namespace {

thread_local std::string last_error;

ForkGuard device_guard;

// tsr_status of an ErrorCode: in the same order, one later.
tsr_status status_of(ErrorCode code) { return static_cast<tsr_status>(static_cast<int>(code) + 1); }
static_assert(TSR_INTERRUPTED == static_cast<int>(ErrorCode::interrupted) + 1);

template <class Table, class Handle>
typename Table::Held live(Table& table, Handle* handle, std::string_view what) {
  auto held = table.find(handle);
  if (!held) {
    throw Error(ErrorCode::bad_input, "the " + std::string(what) + " handle is closed or was never one",
                "create a new one");
  }
  return held;
}

}  // namespace

Dispatchers& dispatchers() {
  static auto* const table = new Dispatchers;
  return *table;
}

Kernels& kernels() {
  static auto* const table = new Kernels;
  return *table;
}

Registries& registries() {
  static auto* const table = new Registries;
  return *table;
}

Dispatchers::Held checked(tsr_dispatcher* handle) {
  refuse_forked_child();
  return live(dispatchers(), handle, "dispatcher");
}
Kernels::Held checked(tsr_kernel* handle) {
  refuse_forked_child();
  return live(kernels(), handle, "kernel");
}
Registries::Held checked(tsr_registry* handle) { return live(registries(), handle, "registry"); }

void note_device_use() { device_guard.note(); }

void refuse_forked_child() {
  device_guard.refuse("used a device",
                      "start workers by spawn or forkserver, or fork before the first dispatcher is created");
}

tsr_status fail(const Error& error) noexcept {
  const bool called_off = interrupted();  // whatever the work then died of
  try {
    last_error = called_off ? Error(ErrorCode::interrupted, error.what_happened()).what() : error.what();
  } catch (...) { last_error.clear(); }
  return status_of(called_off ? ErrorCode::interrupted : error.code());
}

tsr_status fail() noexcept {
  try {
    try {
      throw;
    } catch (const Error& e) { return fail(e); } catch (const std::bad_alloc&) {
      return fail(Error(ErrorCode::device, "out of memory", "use a smaller problem"));
    } catch (const std::exception& e) { return fail(Error(ErrorCode::internal, e.what())); } catch (...) {
      return fail(Error(ErrorCode::internal, "an exception of a foreign type"));
    }
  } catch (...) {  // not even memory for the text
    last_error.clear();
    return status_of(ErrorCode::device);
  }
}

char* copy_text(std::string_view text) {
  auto* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (!out) throw std::bad_alloc();
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return out;
}

std::string_view text_argument(const char* text, std::string_view name) {
  if (!text) throw Error(ErrorCode::bad_input, std::string(name) + " is null");
  return text;
}

void require_out(const void* out, std::string_view name) {
  if (!out)
    throw Error(ErrorCode::bad_input, "there is no room for the " + std::string(name), "pass its address");
}

Json object_argument(const char* json, std::string_view name) {
  if (!json || !*json) return Json::object();
  Json out = Json::parse(json, name);
  if (!out.is_object()) throw Error(ErrorCode::bad_input, std::string(name) + " is no JSON object");
  return out;
}

std::string text_member(Members& in, std::string_view key, std::string_view otherwise) {
  const Json* v = in.find(key);
  return v ? v->as_string() : std::string(otherwise);
}

DispatcherOptions dispatcher_options(const Json& json, std::string_view origin) {
  return at(origin, [&] {
    DispatcherOptions o;
    Members in(json);
    if (const Json* v = in.find("device")) o.device = v->as_string();
    if (const Json* v = in.find("threads"))
      o.threads = at("threads", [&] { return read_int(*v, 0, kMostThreads); });
    if (const Json* v = in.find("top_k")) o.top_k = at("top_k", [&] { return read_int(*v, 0, kMostTopK); });
    if (const Json* v = in.find("background")) o.background = v->as_bool();
    if (const Json* v = in.find("config")) o.config = v->as_string();
    if (const Json* v = in.find("model")) o.model = v->as_string();
    if (const Json* v = in.find("cache_dir")) o.cache_dir = v->as_string();
    if (const Json* v = in.find("packs")) o.packs = read_strings(*v);
    const Json* policy = in.find("policy");
    const Json* database = in.find("database");
    in.finish();
    const std::string path = database_path(database);
    o.decisions = open_decisions(path, database && !path.empty());
    // A config given without a policy is meant to be used.
    o.policy = policy              ? parse_policy(policy->as_string())
               : !o.config.empty() ? Policy::explicit_config
                                   : Policy::model;
    return o;
  });
}

std::string database_path(const Json* given) {
  const std::string path = given ? given->as_string() : default_tune_db();
  return path == "none" ? "" : path;
}

std::vector<Problem> problem_lines(std::string_view text) {
  std::vector<Problem> out;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line.substr(0, line.find('#')));
    if (!line.empty()) out.push_back(Problem::parse(line));
  }
  return out;
}

std::function<void(size_t, size_t, const std::string&)> progress_function(tsr_progress progress, void* user) {
  if (!progress) return {};
  return
      [=](size_t done, size_t total, const std::string& what) { progress(user, done, total, what.c_str()); };
}

}  // namespace tessera::capi

using namespace tessera;
using namespace tessera::capi;

extern "C" {

const char* tsr_version(void) { return TESSERA_VERSION; }
uint32_t tsr_abi_version(void) { return TSR_ABI_VERSION; }
const char* tsr_last_error(void) { return last_error.c_str(); }
void tsr_free(void* text) { std::free(text); }
void tsr_interrupt(int stop) { set_interrupted(stop != 0); }

void tsr_set_log(tsr_log log, void* user) {
  guarded([&] {
    if (!log) return set_log_sink({});
    set_log_sink([=](LogLevel level, std::string_view text) {
      log(user, static_cast<int>(level), std::string(text).c_str());
    });
  });
}

tsr_status tsr_describe(const char* what, const char* text, char** json) {
  return guarded([&] {
    require_out(json, "answer");
    *json = copy_text(describe(text_argument(what, "what"), text ? text : "").dump());
  });
}

tsr_status tsr_job(const char* name, const char* options, tsr_progress progress, void* user, char** json) {
  return guarded([&] {
    require_out(json, "answer");
    throw_if_interrupted();
    refuse_forked_child();
    *json = copy_text(
        run_job(text_argument(name, "the job's name"), object_argument(options, "options"), progress, user)
            .dump());
  });
}

}  // extern "C"
