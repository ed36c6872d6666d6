#include "runtime/generate.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "backend/backend.h"
#include "backend/cpu/compile.h"
#include "base/fs.h"
#include "base/parallel.h"
#include "base/process.h"
#include "base/text.h"
#include "codegen/render.h"
#include "core/arch_spec.h"
#include "core/artifact.h"
#include "runtime/kernel_set.h"
#include "space/rules.h"
#include "space/space.h"
#include "tessera/error.h"
#include "tessera/json.h"
#include "tessera/registry.h"
#include "tune/operands.h"
#include "tune/verify.h"
#include "variable.h"

namespace tessera {
namespace {

constexpr const char* kLayouts[] = {"rcr", "rrr", "crr", "ccr"};

class Generate : public testing::Test {
 protected:
  GenerateOptions options(const std::string& set) const {
    GenerateOptions o;
    o.arch = "x86_avx2";
    o.dtypes = {"f32"};
    o.layouts = {"rcr"};
    o.set = set;
    o.out = out_;
    return o;
  }

  std::string refusal(const GenerateOptions& o) {
    try {
      generate(o);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::bad_input);
      EXPECT_FALSE(path_exists(out_));
      EXPECT_EQ(list_directory(dir_.path()).size(), files_);
      return e.what();
    }
    return "no error";
  }

  TempDir dir_{temp_directory()};
  std::string out_ = dir_.path() + "/kernels";
  size_t files_ = 0;  // in dir_ before
};

// Every member of every set is legal for every type and layout it is declared for.
TEST(KernelSets, MembersAreLegal) {
  ASSERT_GE(kernel_sets().size(), 6u);
  for (const KernelSet& set : kernel_sets()) {
    size_t checked = 0;
    for (const KernelDecl& decl : set.kernels->all()) {
      const ArchSpec& arch = find_arch(decl.arch);
      for (const char* layout : kLayouts) {
        if (!glob_match(decl.layout, layout)) continue;
        for (const std::string& epilogue : set.epilogues) {
          const Problem p =
              Problem::parse("gemm " + set.sizes + " dtype=" + decl.dtype + " layout=" + layout +
                             " epilogue=" + epilogue + (set.variant == "preshuffle" ? " prepack=b" : ""));
          for (const KernelConfig& c : set.kernels->exact_configs(p, arch.name)) {
            const Rule* rule = rejected_by(lower(p), c, arch);
            EXPECT_EQ(rule, nullptr) << set.name << ": " << to_string(c) << " for " << to_string(p) << " on "
                                     << arch.name << ": " << (rule ? rule->name : "");
            ++checked;
          }
        }
      }
    }
    EXPECT_GT(checked, 20u) << set.name;
  }
}

TEST(KernelSets, EveryCpuTypeIsServed) {
  for (const KernelSet& set : kernel_sets()) {
    for (const ArchSpec& arch : all_archs()) {
      if (arch.backend != BackendKind::cpu) continue;
      for (const char* dtype : {"f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "u8xi8"}) {
        for (const char* layout : kLayouts) {
          const Problem p = Problem::parse("gemm " + set.sizes + " dtype=" + dtype + " layout=" + layout);
          EXPECT_FALSE(set.kernels->exact_configs(p, arch.name).empty())
              << set.name << ' ' << arch.name << ' ' << dtype << ' ' << layout;
        }
      }
    }
  }
}

TEST(KernelSets, BadFilesAreRefused) {
  const std::string good =
      R"({"name": "x", "doc": "d", "variant": "standard", "sizes": "m=1 n=1 k=1", "epilogues": ["none"],
          "kernels": [{"archs": ["x86_avx2"], "dtypes": ["f32"], "configs": ["cpu_packed tile=6x16 inst=1x8x1"]}]})";
  EXPECT_EQ(parse_kernel_set(good, "test").kernels->size(), 2u);  // x86_zen3 is like it
  auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    EXPECT_THROW(parse_kernel_set(text, "test"), Error) << text;
  };
  broken("\"doc\"", "\"docs\"");
  broken("\"archs\"", "\"arch\"");
  broken("tile=6x16", "tiles=6x16");
  broken("cpu_packed", "cpu_pack");
  broken("\"f32\"", "\"f33\"");
  broken("[\"x86_avx2\"]", "[\"x86_avx2\", \"x86_avx2\"]");
  broken("{\"name\"", "{\"name\": 1, \"name\"");
}

TEST_F(Generate, WritesACompleteSet) {
  std::vector<std::string> seen;
  size_t last = 0;
  GenerateOptions o = options("essential");
  o.jobs = 2;
  const GenerateResult result = generate(o, [&](size_t done, size_t total, const std::string& symbol) {
    EXPECT_EQ(done, ++last);
    EXPECT_LE(done, total);
    seen.push_back(symbol);
  });
  EXPECT_EQ(static_cast<size_t>(result.kernels), seen.size());
  const Json manifest = Json::parse(read_file(result.manifest));
  EXPECT_EQ(manifest.at("arch").as_string(), "x86_avx2");
  EXPECT_EQ(manifest.at("abi").as_int(), kKernelAbi);
  std::set<std::string> files;
  for (const Json& row : manifest.at("kernels").items()) {
    const std::string unit = read_file(out_ + '/' + row.at("file").as_string());
    EXPECT_NE(unit.find("void " + row.at("symbol").as_string() + "("), std::string::npos);
    EXPECT_EQ(unit.find("#include"), std::string::npos);
    files.insert(row.at("file").as_string());
  }
  EXPECT_EQ(files.size(), static_cast<size_t>(result.files));
  EXPECT_EQ(list_directory(out_).size(), files.size() + 3);
  EXPECT_EQ(list_directory(dir_.path()).size(), 1u);
  const auto registry = Registry::from_json(Json::parse(read_file(out_ + "/registry.json")));
  EXPECT_GT(registry->size(), 0u);
  struct stat st {};
  stat((out_ + "/kernels.h").c_str(), &st);
  EXPECT_EQ(st.st_mode & 0777, 0644u);
}

// What the manifest promises: its flags compile its files, and its table links.
TEST_F(Generate, AnotherBuildCanUseIt) {
  const std::string compiler = find_program("g++").empty() ? find_program("clang++") : find_program("g++");
  GenerateOptions o = options("latency");
  o.dtypes = {"f32", "i8"};
  const GenerateResult result = generate(o);
  const Json manifest = Json::parse(read_file(result.manifest));
  std::vector<std::string> command{compiler};
  for (const Json& flag : manifest.at("compile_flags").items()) command.push_back(flag.as_string());
  command.insert(command.end(), {"-O0", "-Wall", "-o", dir_.path() + "/program"});
  write_file(
      dir_.path() + "/main.cpp",
      "#include \"" + out_ + "/kernels.h\"\n" +
          "int main() { int n = 0; for (auto& k : kTesseraKernels) n += k.run != nullptr; return n; }\n");
  command.push_back(dir_.path() + "/main.cpp");
  for (const std::string& name : list_directory(out_)) {
    if (name.ends_with(".cpp")) command.push_back(out_ + '/' + name);
  }
  const ProcessResult built = run_process(command, "", 300);
  ASSERT_TRUE(built.ok()) << built.out;
  EXPECT_EQ(run_process({dir_.path() + "/program"}, "", 20).code, result.files);
}

// As an integrator does: its own build of the units, registered by symbol, run on a problem each was
// generated for.
TEST_F(Generate, BuiltUnitsRun) {
  const std::string compiler = find_program("g++").empty() ? find_program("clang++") : find_program("g++");
  GenerateOptions o = options("latency");
  o.arch = detect_cpu().name;
  o.dtypes = {"f32", "bf16", "i8"};
  const GenerateResult result = generate(o);
  const Json manifest = Json::parse(read_file(result.manifest));
  const auto backend = make_backend("cpu", 1);
  std::map<std::string, std::shared_ptr<Module>> built;
  size_t run = 0;
  for (const Json& row : manifest.at("kernels").items()) {
    auto& module = built[row.at("symbol").as_string()];
    if (!module) {
      std::vector<std::string> command{compiler, "-shared"};
      for (const Json& flag : manifest.at("compile_flags").items()) command.push_back(flag.as_string());
      for (const Json& flag : row.at("flags").items()) command.push_back(flag.as_string());
      command.insert(command.end(),
                     {"-o", dir_.path() + "/unit.so", out_ + '/' + row.at("file").as_string()});
      const ProcessResult made = run_process(command, "", 60);
      ASSERT_TRUE(made.ok()) << made.out;
      module = backend->load({row.at("symbol").as_string(), read_file(dir_.path() + "/unit.so")});
    }
    const Problem p = Problem::parse("gemm m=19 n=37 k=53 dtype=" + row.at("dtype").as_string() +
                                     " layout=" + row.at("layout").as_string());
    std::string why;
    const KernelConfig c = *KernelConfig::parse(row.at("config").as_string(), &why);
    if (rejected_by(lower(p), c, backend->arch())) continue;  // it is for other sizes
    const auto kernel = backend->prepare(module, p, {.config = c, .source = ChoiceSource::explicit_config});
    Operands operands(p, FillKind::integers);
    Verifier verifier(operands);
    operands.reset_c();
    kernel->run(operands.bind(*kernel));
    EXPECT_EQ(verifier.check().failure, "") << row.at("config").as_string();
    ++run;
  }
  EXPECT_EQ(built.size(), static_cast<size_t>(result.files));
  EXPECT_GT(run, 5u);
}

// Units compile, those of architectures that this machine lacks too: one per set of compiler flags, family,
// instruction and preparation of B. With each compiler that a user may have; GCC 11 is Ubuntu 22.04's.
class GenerateWith : public Generate, public testing::WithParamInterface<const char*> {};

TEST_P(GenerateWith, UnitsOfEveryArchitectureCompile) {
  if (find_program(GetParam()).empty()) GTEST_SKIP() << GetParam() << " is not installed";
  Variable compiler("TESSERA_CXX", GetParam());
  std::set<std::string> seen;
  for (const char* name : {"essential", "preshuffle"}) {
    const KernelSet& set = find_kernel_set(name);
    for (const KernelDecl& decl : set.kernels->all()) {
      std::string why;
      const KernelConfig c = *KernelConfig::parse(decl.config, &why);
      const Problem p =
          Problem::parse("gemm m=64 n=64 k=64 dtype=" + decl.dtype + " layout=rcr epilogue=bias,gelu" +
                         (set.variant == "preshuffle" ? " prepack=b" : ""));
      const ArchSpec& arch = find_arch(decl.arch);
      const Instruction* inst = arch.find_instruction(p.a, p.b, c);
      ASSERT_NE(inst, nullptr) << decl.config;
      const std::string kind = join(arch.compile_flags, " ") + ' ' + set.variant + ' ' +
                               std::string(to_string(c.family_id())) + ' ' + inst->name;
      if (!seen.insert(kind).second) continue;
      EXPECT_NO_THROW(compile_cpp(render(lower(p), c, arch), dir_.path())) << decl.config << ' ' << arch.name;
    }
  }
  EXPECT_GE(seen.size(), 30u);
}

// The same of convolutions, which no kernel set declares: one per architecture, family and instruction, and
// per direction where the family has code for each.
TEST_P(GenerateWith, UnitsOfConvolutionsCompile) {
  if (find_program(GetParam()).empty()) GTEST_SKIP() << GetParam() << " is not installed";
  Variable compiler("TESSERA_CXX", GetParam());
  std::map<std::string, Source> units;
  std::set<Family> families;
  for (const char* name : {"x86_avx2", "x86_amx"}) {
    const ArchSpec& arch = find_arch(name);
    for (const char* op : {"conv_fwd", "conv_bwd_data", "conv_bwd_weight"}) {
      for (const char* shape :
           {"c=64 k=64", "g=32 c=1 k=1", "g=8 c=4 k=4", "c=3 k=64", "c=3 k=64 stride=2x2", "c=1 k=4"}) {
        for (const char* dtype : {"f32", "bf16"}) {
          const GemmView v = lower(Problem::parse(std::string(op) + " n=2 in=24x24 filter=3x3 pad=1x1 " +
                                                  shape + " dtype=" + dtype));
          for (const KernelConfig& c : legal_configs(v, arch)) {
            families.insert(c.family_id());
            const Instruction* inst = arch.find_instruction(v.a.type, v.b.type, c);
            const Family f = c.family_id();
            const std::string kind = arch.name + std::string(to_string(f)) + (inst ? inst->name : "") +
                                     dtype + (f == Family::cpu_groups || f == Family::cpu_planes ? op : "");
            if (!units.contains(kind)) units.emplace(kind, render(v, c, arch));
          }
        }
      }
    }
  }
  EXPECT_GE(families.size(), 7u);
  EXPECT_GE(units.size(), 30u);
  std::vector<const Source*> all;
  for (const auto& [kind, unit] : units) all.push_back(&unit);
  in_parallel(all.size(), 0, [&](size_t i) {
    EXPECT_NO_THROW(compile_cpp(*all[i], dir_.path())) << all[i]->arch << '\n'
                                                       << all[i]->unit.substr(0, 2000);
  });
}

INSTANTIATE_TEST_SUITE_P(Compilers, GenerateWith, testing::Values("g++", "g++-11", "clang++"),
                         [](const auto& one) {
                           std::string name;
                           for (char c : std::string(one.param)) name += c == '+' ? 'x' : c == '-' ? '_' : c;
                           return name;
                         });

TEST_F(Generate, EveryVariantAndSetGoesTogether) {
  for (const KernelSet& set : kernel_sets()) {
    GenerateOptions o = options(set.name);
    o.variant = set.variant;
    o.out = dir_.path() + '/' + set.name;
    o.layouts = {"rcr", "rrr"};
    EXPECT_GT(generate(o).kernels, 0) << set.name;
  }
  GenerateOptions all = options("");
  const GenerateResult result = generate(all);
  EXPECT_LT(result.files, result.kernels);  // launch knobs and layouts share units
}

TEST_F(Generate, ConfigFilesChooseKernels) {
  const std::string file = dir_.path() + "/set.txt";
  write_file(file, "# two ways\nexact cpu_packed tile=6x16 inst=1x8x1\nany cpu_packed tile=4x16 pack_a=0\n");
  files_ = 1;
  GenerateOptions o = options("");
  o.config_file = file;
  const GenerateResult result = generate(o);
  EXPECT_EQ(result.files, 2);
  remove_all(out_);
  write_file(file,
             "exact cpu_packed tile=6x16 inst=1x8x1 dtype=f32\nexact cpu_packed tile=6x16 inst=1x8x1\n");
  EXPECT_EQ(generate(o).kernels, 1);  // declared twice
  remove_all(out_);
  write_file(file, "exact cpu_packed tile=6x16 inst=1x8x1\nexact cpu_packed tile=5x15 inst=1x8x1\n");
  const std::string refused = refusal(o);
  EXPECT_NE(refused.find("tile=5x15"), std::string::npos) << refused;
  EXPECT_NE(refused.find("nothing was generated"), std::string::npos);
  EXPECT_NE(refused.find("nearest legal: cpu_packed"), std::string::npos) << refused;
  write_file(file, "exact cpu_packed tile=6x16 insts=1x8x1\n");
  EXPECT_NE(refusal(o).find("line 1"), std::string::npos);
}

TEST_F(Generate, ReadsARegistrysJson) {
  const std::string file = dir_.path() + "/set.json";
  write_file(file, Registry::parse("exact cpu_packed tile=6x16 inst=1x8x1")->to_json().dump());
  GenerateOptions o = options("");
  o.config_file = file;
  EXPECT_EQ(generate(o).kernels, 1);
}

TEST_F(Generate, PartsOfWhatIsAskedForAreNone) {
  const std::string file = dir_.path() + "/set.txt";
  files_ = 1;
  GenerateOptions o = options("");
  o.config_file = file;
  o.dtypes = {"f32", "bf16", "f32"};
  write_file(file, "exact cpu_packed tile=6x16 inst=1x8x1 dtype=f32\n");
  EXPECT_NE(refusal(o).find("bf16 rcr"), std::string::npos) << refusal(o);
  o.dtypes = {"f32", "f32"};
  write_file(file, "exact cpu_packed tile=6x16 inst=1x8x1\nany cpu_packed tile=999x*\n");
  EXPECT_NE(refusal(o).find("any cpu_packed tile=999x*"), std::string::npos) << refusal(o);
  // Declared for others, so that nothing of them is missing here.
  write_file(file, "exact cpu_packed tile=6x16 inst=1x8x1\nany mfma arch=gfx*\nany cpu_packed dtype=f16\n");
  EXPECT_EQ(generate(o).kernels, 1);
}

TEST_F(Generate, BadRequestsAreRefused) {
  EXPECT_NE(refusal(options("esential")).find("did you mean 'essential'"), std::string::npos);
  EXPECT_NE(refusal(options("nothing like it")).find("compute essential latency memory multi_d preshuffle"),
            std::string::npos);
  GenerateOptions o = options("essential");
  o.variant = "preshufle";
  EXPECT_NE(refusal(o).find("standard preshuffle multi_d"), std::string::npos);
  o.variant = "preshuffle";
  EXPECT_NE(refusal(o).find("of variant standard"), std::string::npos);
  o = options("essential");
  o.arch = "x86_avx3";
  refusal(o);
  o = options("essential");
  o.dtypes = {"f33"};
  refusal(o);
  o.dtypes = {};
  refusal(o);
  o = options("essential");
  o.layouts = {"rcc"};
  refusal(o);
  o = options("essential");
  o.arch = "gfx942";  // no kernel of the set is for it
  EXPECT_NE(refusal(o).find("gfx942"), std::string::npos);
}

TEST_F(Generate, FullDirectoriesAreNotTouched) {
  make_directories(out_);
  write_file(out_ + "/mine", "x");
  EXPECT_THROW(generate(options("latency")), Error);
  EXPECT_EQ(list_directory(out_), std::vector<std::string>{"mine"});
  EXPECT_EQ(list_directory(dir_.path()).size(), 1u);
  remove_all(out_ + "/mine");
  EXPECT_GT(generate(options("latency")).files, 0);  // an empty one is taken
}

TEST_F(Generate, AFailureOnTheWayLeavesNothing) {
  GenerateOptions o = options("essential");
  EXPECT_THROW(generate(o,
                        [](size_t done, size_t, const std::string&) {
                          if (done == 3) throw Error(ErrorCode::io, "stop");
                        }),
               Error);
  EXPECT_TRUE(list_directory(dir_.path()).empty());
}

}  // namespace
}  // namespace tessera
