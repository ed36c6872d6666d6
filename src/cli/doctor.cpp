#include <dlfcn.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>

#include "backend/backend.h"
#include "backend/cpu/compile.h"
#include "backend/cuda/nvrtc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "codegen/render.h"
#include "core/arch_spec.h"
#include "core/gemm_view.h"
#include "runtime/kernel_cache.h"
#include "runtime/pack.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tessera/tune_db.h"
#include "tune/database.h"
#include "tune/peer.h"

namespace tessera::cli {
namespace {

enum class State : int { ok, warn, fail };
constexpr std::string_view kStates[] = {"ok", "warn", "fail"};

struct Finding {
  std::string what;
  State state = State::ok;
  std::string text, remedy;
};
using Findings = std::vector<Finding>;

// First line of `path` that starts with `key`, after its separator.
std::string line_value(const std::string& path, std::string_view key, char separator) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const size_t at = line.find(separator);
    std::string_view value = trim(std::string_view(line).substr(at == line.npos ? line.size() : at + 1));
    if (value.size() > 1 && value.front() == '"') value = value.substr(1, value.size() - 2);
    return std::string(value);
  }
  return "";
}

void system_facts(const Invocation&, Findings& out) {
  utsname name{};
  uname(&name);
  out.push_back({"system", State::ok,
                 line_value("/etc/os-release", "PRETTY_NAME", '=') + ", " + name.sysname + " " +
                     name.release + " " + name.machine,
                 ""});
  out.push_back({"processor", State::ok, line_value("/proc/cpuinfo", "model name", ':'), ""});
}

void architecture(const Invocation&, Findings& out) {
  ArchSpec here;
  try {
    here = detect_cpu();
  } catch (const Error& e) {
    out.push_back({"architecture", State::fail, e.what_happened(), e.what_to_do()});
    return;
  }
  out.push_back({"architecture", State::ok,
                 here.name + ", " + std::to_string(here.compute_units) + " core(s), L1 " +
                     bytes_text(static_cast<double>(here.l1.bytes)) + ", L2 " +
                     bytes_text(static_cast<double>(here.l2.bytes)) + ", L3 " +
                     bytes_text(static_cast<double>(here.l3.bytes)),
                 ""});
  const Processor processor = this_processor();
  for (const ArchSpec& a : all_archs()) {
    if (a.backend != BackendKind::cpu || a.rank <= here.rank) continue;
    const std::vector<std::string> missing = missing_features(a, processor);
    out.push_back({"not " + a.name, State::ok,
                   missing.empty() ? "describes other processors with these features"
                                   : "this processor or its kernel lacks " + join(missing, " "),
                   ""});
  }
}

// The first CUDA device, where there is one; whether the libraries are there is another check's.
void cuda(const Invocation&, Findings& out) {
  try {
    const auto backend = make_backend("cuda:0");
    const ArchSpec& a = backend->arch();
    const std::string identity = backend->compiler_identity();
    out.push_back(
        {"cuda:0", identity.empty() ? State::warn : State::ok,
         a.name + ", " + std::to_string(a.compute_units) + " multiprocessors, L2 " +
             bytes_text(static_cast<double>(a.l2.bytes)) + ", " + (identity.empty() ? "no NVRTC" : identity),
         identity.empty() ? "install the CUDA toolkit's libnvrtc, or name its folder in TESSERA_CUDA_HOME"
                          : ""});
  } catch (const Error& e) {
    if (e.code() != ErrorCode::unsupported)
      out.push_back({"cuda:0", State::warn, e.what_happened(), e.what_to_do()});
  }
}

// A real unit through the real compiler.
void compiler(const Invocation& call, Findings& out) {
  const char* remedy =
      "install g++ or clang++, or name one in TESSERA_CXX; without one only packs and cached kernels run";
  const bool has_pack = [&] {
    try {
      return !standard_pack_paths(detect_cpu().name).empty() || call.has("--pack");
    } catch (const Error&) { return false; }
  }();
  try {
    const auto backend = make_backend("cpu", 1);
    const std::string identity = backend->compiler_identity();
    if (identity.empty()) {
      out.push_back({"compiler", has_pack ? State::warn : State::fail, find_cpp_compiler().missing, remedy});
      return;
    }
    const GemmView view = lower(Problem::parse("gemm m=64 n=64 k=64 dtype=f32"));
    const Source source = render(view, legal_configs(view, backend->arch()).at(0), backend->arch());
    TempDir scratch(temp_directory());
    const auto start = Clock::now();
    backend->load(backend->compile(source, scratch.path()));
    const double ms = ms_since(start);
    out.push_back(
        {"compiler", ms > 2000 ? State::warn : State::ok, identity + format(", a kernel in %.0f ms", ms),
         ms > 2000 ? "compiling is slow here: 'tessera build' or a pack prepares kernels beforehand" : ""});
  } catch (const Error& e) {
    out.push_back(
        {"compiler", State::fail, e.what_happened(), e.what_to_do().empty() ? remedy : e.what_to_do()});
  }
}

void cache(const Invocation& call, Findings& out) {
  try {
    KernelCache cache({.directory = call.value("--cache-dir"), .packs = {}});
    const Json s = cache.stats();
    const std::string why = path_exists(cache.directory()) ? why_untrusted(cache.directory()) : "";
    const std::string unwritable = why.empty() ? cache.why_unwritable() : "";
    const State state = !unwritable.empty() ? State::fail : !why.empty() ? State::warn : State::ok;
    out.push_back(
        {"kernel cache", state,
         cache.directory() + ": " + std::to_string(s.at("entries").as_int()) + " kernels, " +
             bytes_text(static_cast<double>(s.at("bytes").as_int())) + (why.empty() ? "" : "; " + why) +
             (unwritable.empty() ? "" : "; kernels cannot be stored: " + unwritable),
         state == State::ok ? ""
         : why.empty()      ? "free space, or choose another directory with --cache-dir or TESSERA_CACHE_DIR"
                            : "chown and chmod go-w it, or choose another with TESSERA_CACHE_DIR"});
    const Json checked = cache.verify(false);
    if (const size_t bad = checked.at("bad").size()) {
      out.push_back({"kernel cache", State::warn, std::to_string(bad) + " damaged entries",
                     "tessera cache verify --repair"});
    }
  } catch (const Error& e) {
    out.push_back({"kernel cache", State::fail, e.what_happened(), e.what_to_do()});
  }
}

void database(const Invocation&, Findings& out) {
  const std::string path = default_tune_db();
  if (path.empty() || !path_exists(path)) {
    out.push_back({"database", State::ok, path.empty() ? "none" : "none yet: " + path, ""});
    return;
  }
  try {
    const Database db(path, Database::Mode::read);
    out.push_back(
        {"database", State::ok, path + ": " + std::to_string(db.decisions().size()) + " decisions", ""});
  } catch (const Error& e) { out.push_back({"database", State::fail, e.what_happened(), e.what_to_do()}); }
}

void packs(const Invocation& call, Findings& out) {
  std::vector<std::string> paths = call.each("--pack");
  try {
    for (std::string& path : standard_pack_paths(detect_cpu().name)) paths.push_back(std::move(path));
  } catch (const Error&) {}
  if (paths.empty()) out.push_back({"pack", State::ok, "none; kernels are compiled when first needed", ""});
  for (const std::string& path : paths) {
    try {
      const auto pack = Pack::open(path);
      const size_t damaged = pack->damaged().size();
      const bool other = !pack->of_this_build();
      out.push_back({"pack",
                     damaged ? State::fail
                     : other ? State::warn
                             : State::ok,
                     path + ": " + std::to_string(pack->size()) + " kernels" +
                         (damaged ? ", " + std::to_string(damaged) + " damaged" : "") +
                         (other ? ", " + std::string(kOfAnotherBuild) : ""),
                     damaged || other ? "create it again" : ""});
    } catch (const Error& e) { out.push_back({"pack", State::fail, e.what_happened(), e.what_to_do()}); }
  }
}

void peers(const Invocation&, Findings& out) {
  const auto names = found_peers();
  if (names.empty()) {
    out.push_back({"peers", State::ok, "none; only bench --peers needs them", ""});
    return;
  }
  for (const std::string& name : names) {
    try {
      out.push_back({"peer " + name, State::ok, Peer::load(name)->description(), ""});
    } catch (const Error& e) {
      out.push_back({"peer " + name, State::warn, e.what_happened(), e.what_to_do()});
    }
  }
}

// What the backend of NVIDIA's GPUs would open.
void gpu_libraries(const Invocation&, Findings& out) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  out.push_back({"CUDA driver", State::ok, driver ? "libcuda.so.1" : "not on this machine", ""});
  if (driver) dlclose(driver);
  std::string why;
  const std::string identity = cuda::nvrtc_identity(&why);
  out.push_back({"CUDA compiler", State::ok, identity.empty() ? why : identity, ""});
}

constexpr void (*kChecks[])(const Invocation&, Findings&) = {
    system_facts, architecture, compiler, cuda, cache, database, packs, peers, gpu_libraries};

int run(const Invocation& call) {
  call.no_more_words(0);
  Findings findings;
  for (const auto check : kChecks) {
    check(call, findings);
    throw_if_interrupted();
  }
  size_t failed = 0, warned = 0;
  Json rows = Json::array();
  for (const Finding& f : findings) {
    failed += f.state == State::fail;
    warned += f.state == State::warn;
    const std::string_view state = kStates[static_cast<size_t>(f.state)];
    rows.push(Json::object({{"check", f.what}, {"state", state}, {"text", f.text}, {"remedy", f.remedy}}));
    if (call.json()) continue;
    print(format("%-4s  %-16s  %s", std::string(state).c_str(), f.what.c_str(), f.text.c_str()));
    if (!f.remedy.empty()) print("      " + std::string(16, ' ') + "  -> " + f.remedy);
  }
  if (call.json()) {
    print_json(Json::object({{"version", TESSERA_VERSION},
                             {"checks", std::move(rows)},
                             {"failed", static_cast<int64_t>(failed)},
                             {"warnings", static_cast<int64_t>(warned)}}));
  }
  return failed ? say_failed(std::to_string(failed) + " check(s) failed", call.reproduce()) : kOk;
}

}  // namespace

const Command doctor_command{.name = "doctor",
                             .words = "",
                             .summary = "what was found on this machine, and what to do about what was not",
                             .options = {},
                             .run = run,
                             .uses = kCache | kPacks | kJson};

}  // namespace tessera::cli
