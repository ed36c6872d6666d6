// tsr_job: long work without a handle, one row each.
#include "backend/backend.h"
#include "base/text.h"
#include "capi/capi.h"
#include "core/arch_spec.h"
#include "runtime/generate.h"
#include "runtime/kernel_cache.h"
#include "runtime/pack.h"
#include "runtime/pack_kernels.h"
#include "tessera/error.h"

namespace tessera::capi {
namespace {

using Progress = JobProgress;

struct CacheAction {
  std::string_view name;
  Json (*run)(KernelCache&, int64_t max_bytes);
};

constexpr CacheAction kCacheActions[] = {
    {"stats", [](KernelCache& c, int64_t) { return c.stats(); }},
    {"verify", [](KernelCache& c, int64_t) { return c.verify(false); }},
    {"repair", [](KernelCache& c, int64_t) { return c.verify(true); }},
    {"collect", [](KernelCache& c, int64_t max_bytes) { return c.collect(max_bytes); }},
    {"clear",
     [](KernelCache& c, int64_t) {
       return Json::object({{"removed", c.clear()}});
     }},
};

Json cache(const Json& options, const Progress&) {
  Members in(options);
  const CacheAction& action = action_of(in, kCacheActions);
  KernelCache::Options o;
  o.directory = text_member(in, "cache_dir");
  if (const Json* v = in.find("max_bytes")) o.max_bytes = read_count(*v, 0);
  in.finish();
  KernelCache opened(o);
  return action.run(opened, o.max_bytes);
}

Json create_pack(Members& in, const Progress& progress) {
  const std::string path = in.at("path").as_string();
  std::vector<Problem> problems;
  for (const Json& text : in.at("problems").items()) problems.push_back(Problem::parse(text.as_string()));
  PackKernelsOptions o;
  if (const Json* v = in.find("dispatcher")) o.dispatcher = dispatcher_options(*v, "dispatcher");
  if (const Json* v = in.find("jobs")) o.jobs = read_int(*v, 0);
  if (const Json* v = in.find("decisions")) o.decisions = v->as_bool();
  if (const Json* v = in.find("thread_counts")) {
    for (const Json& count : v->items()) o.thread_counts.push_back(read_int(count, 1, kMostThreads));
  }
  if (const Json* v = in.find("cover")) o.share = read_int(*v, 1, 100) / 100.0;
  const Json* add = in.find("add");
  in.finish();
  note_device_use();
  PackWriter writer;
  if (add && add->as_bool()) writer.add(*Pack::open(path));
  add_kernels(writer, problems, o, progress);
  writer.write(path);
  return Pack::open(path)->describe();
}

Json list_pack(Members& in, const Progress&) {
  const auto pack = Pack::open(in.at("path").as_string());
  in.finish();
  return pack->describe();
}

Json check_pack(Members& in, const Progress&) {
  const auto pack = Pack::open(in.at("path").as_string());
  in.finish();
  return pack->check();
}

struct PackAction {
  std::string_view name;
  Json (*run)(Members&, const Progress&);
};

constexpr PackAction kPackActions[] = {{"create", create_pack}, {"list", list_pack}, {"check", check_pack}};

Json pack(const Json& options, const Progress& progress) {
  Members in(options);
  return action_of(in, kPackActions).run(in, progress);
}

Json generate_sources(const Json& options, const Progress& progress) {
  Members in(options);
  GenerateOptions o;
  o.arch = text_member(in, "arch");
  if (o.arch.empty()) o.arch = detect_cpu().name;
  o.dtypes = read_strings(in.at("dtypes"));
  if (const Json* v = in.find("layouts")) o.layouts = read_strings(*v);
  if (o.layouts.empty()) o.layouts = {"rcr"};
  o.variant = text_member(in, "variant", o.variant);
  o.set = text_member(in, "set");
  o.config_file = text_member(in, "config_file");
  o.out = in.at("out").as_string();
  if (const Json* v = in.find("jobs")) o.jobs = read_int(*v, 0);
  in.finish();
  const GenerateResult r = generate(o, progress);
  return Json::object({{"arch", o.arch},
                       {"variant", o.variant},
                       {"kernels", r.kernels},
                       {"files", r.files},
                       {"manifest", r.manifest}});
}

struct Job {
  std::string_view name;
  Json (*run)(const Json& options, const Progress& progress);
};

constexpr Job kJobs[] = {{"cache", cache},          {"pack", pack},       {"generate", generate_sources},
                         {"tune", tune_job},        {"sweep", sweep_job}, {"train", train_job},
                         {"evaluate", evaluate_job}};

}  // namespace

Json run_job(std::string_view name, const Json& options, tsr_progress progress, void* user) {
  std::vector<std::string> names;
  for (const Job& j : kJobs) {
    if (j.name == name) return at(name, [&] { return j.run(options, progress_function(progress, user)); });
    names.emplace_back(j.name);
  }
  throw Error(ErrorCode::bad_input, "unknown job '" + std::string(name) + "'", "one of " + join(names, " "));
}

}  // namespace tessera::capi
