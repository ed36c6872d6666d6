// The correctness walk: legal configurations of every family on the case lists against the reference.
//
// A kernel does not depend on sizes, so compiling dominates. By default a line takes every configuration of
// a twelfth of the kernels it could use, other lines other twelfths; TESSERA_WALK=all takes all. Kernels stay
// in the test cache.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "backend/backend.h"
#include "base/fs.h"
#include "base/parallel.h"
#include "base/text.h"
#include "codegen/render.h"
#include "runtime/kernel_cache.h"
#include "space/space.h"
#include "tune/verify.h"

namespace tessera {
namespace {

bool walk_all() {
  const char* text = std::getenv("TESSERA_WALK");
  return text && std::string_view(text) == "all";
}

struct Case {
  std::string file;
  int line;
  std::string problem, arch;
};

// Whether `other` has the vectors and all the instructions of `a`, and so its kernels.
bool has_kernels_of(const ArchSpec& other, const ArchSpec& a) {
  const auto has = [&](const Instruction& i) {
    return std::ranges::any_of(other.instructions, [&](const Instruction& j) {
      return i.name == j.name && i.a == j.a && i.b == j.b && i.m == j.m && i.n == j.n && i.k == j.k;
    });
  };
  return other.vector_bits == a.vector_bits && std::ranges::all_of(a.instructions, has);
}

// CPU architectures this processor satisfies, the detected one first, and none whose kernels another one has
// or that is only another one's with other rates.
std::vector<std::string> runnable_archs() {
  const ArchSpec& here = find_arch(detect_cpu().name);
  const Processor processor = this_processor();
  std::vector<const ArchSpec*> others;
  for (const ArchSpec& a : all_archs()) {
    if (a.backend == BackendKind::cpu && a.like.empty() && missing_features(a, processor).empty() &&
        !has_kernels_of(here, a)) {
      others.push_back(&a);
    }
  }
  std::vector<std::string> out = {here.name};
  for (const ArchSpec* a : others) {
    const bool known = std::ranges::any_of(others, [&](const ArchSpec* b) {
      return b != a && has_kernels_of(*b, *a) && (!has_kernels_of(*a, *b) || b < a);
    });
    if (!known) out.push_back(a->name);
  }
  return out;
}

std::vector<Case> cases() {
  const std::string folder = TESSERA_SOURCE_DIR "/tests/cases/";
  const std::vector<std::string> archs = runnable_archs();
  std::vector<Case> out;
  for (const std::string& file : list_directory(folder)) {
    if (!file.ends_with(".txt")) continue;
    int number = 0;
    const std::string text = read_file(folder + file);
    for (std::string_view line : split(text, '\n')) {
      ++number;
      line = trim(line.substr(0, line.find('#')));
      if (line.empty()) continue;
      for (const std::string& arch : archs) {
        // Lesser architectures share everything but the innermost code: by default the lists of types and of
        // what went wrong once cover that.
        if (arch != archs[0] && !walk_all() && file != "types.txt" && file != "regressions.txt") continue;
        out.push_back({file.substr(0, file.size() - 4), number, std::string(line), arch});
      }
    }
  }
  return out;
}

// What a crash was about, for the last words of the program.
char current[1024];

void set_current(const std::string& text) { std::strncpy(current, text.c_str(), sizeof current - 1); }

void say_current(int) {
  for (const char* text : {"crashed in: ", static_cast<const char*>(current), "\n"}) {
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
  }
}

void report_crashes() {
  struct sigaction action {};
  action.sa_handler = say_current;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) sigaction(signal, &action, nullptr);
}

struct Unit {
  Source source;
  std::shared_ptr<Module> module;
  std::string error;
};
using Units = std::map<std::string, Unit>;  // by symbol

void compile_all(Units& units, const Backend& backend) {
  KernelCache cache({});
  std::vector<Unit*> list;
  for (auto& [symbol, unit] : units) list.push_back(&unit);
  in_parallel(list.size(), 2, [&](size_t i) {
    try {
      list[i]->module = backend.load(cache.get_or_build(list[i]->source, backend).binary);
    } catch (const std::exception& e) { list[i]->error = e.what(); }
  });
}

class Walk : public testing::TestWithParam<Case> {};

TEST_P(Walk, EveryLegalConfig) {
  const Case& one = GetParam();
  setenv("TESSERA_ARCH", one.arch.c_str(), 1);
  report_crashes();
  const Problem problem = Problem::parse(one.problem);
  ASSERT_EQ(to_string(Problem::parse(to_string(problem))), to_string(problem));
  const GemmView view = lower(problem);
  const auto alone = make_backend("cpu", 1), together = make_backend("cpu", 3);

  const std::vector<KernelConfig> legal = legal_configs(view, together->arch());
  if (legal.empty()) {
    ASSERT_TRUE(together->arch().instructions_for(view.a.type, view.b.type).empty()) << "nothing legal";
    GTEST_SKIP() << one.arch << " does not multiply these types";
  }
  // Which units, by their names: a twelfth, another one for each line, but at least one of each family.
  const size_t part = walk_all() ? 1 : one.arch == detect_cpu().name ? 12 : 36;
  const size_t mine = std::hash<std::string>{}(one.problem) % part;
  Units units;
  std::vector<std::pair<KernelConfig, std::string>> chosen;  // and the symbol of its unit
  std::set<int> families;
  for (const KernelConfig& c : legal) {
    Source source = render(view, c, alone->arch());
    const std::string symbol = source.symbol;
    const bool known = units.count(symbol) > 0;
    if (!known && std::hash<std::string>{}(symbol) % part != mine && families.count(c.family)) continue;
    families.insert(c.family);
    if (!known) units[symbol].source = std::move(source);
    chosen.emplace_back(c, symbol);
  }
  compile_all(units, *alone);
  for (const auto& [symbol, unit] : units) ASSERT_EQ(unit.error, "") << symbol;

  // Aligned to cache lines, and to no more than an element: buffers end where memory ends.
  Operands integers(problem, FillKind::integers, 1, 64);
  Operands uniform(problem, FillKind::uniform, 2,
                   static_cast<size_t>(std::max(bytes_of(view.d), bytes_of(view.c.type))));
  Verifiers exact(integers), bounded(uniform);
  int failures = 0;
  const auto run = [&](const Backend& backend, const KernelConfig& c, const std::string& symbol,
                       Operands& operands, Verifiers& verifiers, bool own_workspace) {
    const std::string what = to_string(problem) + " --config '" + to_string(c) + "' --threads " +
                             std::to_string(backend.arch().compute_units) + " on " + one.arch;
    set_current(what);
    std::string said;
    try {
      const auto kernel = backend.prepare(units[symbol].module, problem, {.config = c});
      operands.reset_c();
      Buffers buffers = operands.bind(*kernel);
      const GuardedBuffer workspace(own_workspace ? kernel->workspace_bytes() : 0);
      if (own_workspace) buffers.workspace = workspace.data();
      kernel->run(buffers);
      const Verification v = verifiers.of(arithmetic_of(*kernel)).check();
      said = v.failure;
      if (said.empty()) said = workspace.damage();
      EXPECT_TRUE(v.complete);
    } catch (const std::exception& e) { said = e.what(); }
    if (said.empty()) return;
    if (++failures <= 5) ADD_FAILURE() << what << "\n  " << said;
  };
  for (const auto& [config, symbol] : chosen) {
    run(*together, config, symbol, integers, exact, false);
    run(*alone, config, symbol, integers, exact, true);
    run(*alone, config, symbol, uniform, bounded, false);
  }
  if (failures > 5)
    ADD_FAILURE() << failures << " failures in all, of " << chosen.size() << " configurations";
  RecordProperty("configs", static_cast<int>(chosen.size()));
  RecordProperty("kernels", static_cast<int>(units.size()));
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  return info.param.file + "_" + std::to_string(info.param.line) + "_" + info.param.arch;
}

INSTANTIATE_TEST_SUITE_P(Cases, Walk, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace tessera
