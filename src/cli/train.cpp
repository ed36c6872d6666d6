#include "tune/train.h"

#include <cstdio>
#include <filesystem>

#include "base/fs.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/invocation.h"
#include "cli/measured.h"
#include "cli/output.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

constexpr Option kOptions[] = {
    {"--data", "FILE", "measurements from a file of 'db export FILE.times', not the database",
     Complete::file},
    {"--arch", "ARCH", "the architecture of the measurements (this machine's)", Complete::arch},
    {"--operation", "OP", "gemm, conv_fwd, ... (gemm)"},
    {"--units", "N", "cores or compute units of the measurements, when there are several"},
    {"--out", "FILE",
     "the model file; FILE.json is its manifest (models/ARCH/OP.model, of several cores OP.CORES.model)",
     Complete::file},
    {"--from", "FILE", "warm start: this model's trees, and more", Complete::file},
    {"--rounds", "N", "trees at most (300)"},
    {"--depth", "N", "of a tree (7)"},
    {"--focus", "N", "power with which a row's weight falls with its distance from the best (2)"},
    {"--choices", "W", "weight of what choices lose beside the squares of errors (0)"},
    {"--softness", "T", "of these choices: logarithms of times so far apart are told apart (0.1)"},
    {"--level", "L", "how much the mean error of a problem counts beside differences within it (1)"},
    {"--least", "W", "weight of the rows of a leaf, at least (2)"},
    {"--rate", "R", "learning rate (0.04)"},
    {"--patience", "N", "trees without a better choice on the fold for validation, then it ends (60)"},
    {"--seed", "N", "of the draws (1)"},
};

int run(const Invocation& call) {
  call.no_more_words(0);
  const TrainingData data = measured(call, call.has("--arch") ? call.value("--arch") : detect_cpu().name);
  TrainOptions o;
  o.rounds = static_cast<int>(call.integer("--rounds", o.rounds, 1));
  o.depth = static_cast<int>(call.integer("--depth", o.depth, 1));
  o.focus = static_cast<int>(call.integer("--focus", o.focus, 1));
  o.rate = call.number("--rate", o.rate);
  o.patience = static_cast<int>(call.integer("--patience", o.patience, 1));
  o.choices = call.number("--choices", o.choices);
  o.softness = call.number("--softness", o.softness);
  o.level = call.number("--level", o.level);
  o.least = call.number("--least", o.least);
  o.seed = static_cast<uint64_t>(call.integer("--seed", 1, 0, Invocation::kMostSeed));
  if (call.has("--from"))
    o.start = LearnedModel::parse(read_file(call.value("--from")), call.value("--from"));
  const std::string out = call.value("--out", "models/" + scope_of(data).title() + ".model");
  const std::string folder = std::filesystem::path(out).parent_path();  // write_model makes it
  if (folder.empty() || path_exists(folder)) check_writable(out);
  const TrainResult result = train(data, o, [&](int trees, double regret) {
    throw_if_interrupted();
    if (!call.has("--quiet") && trees % 50 == 0)
      std::fprintf(stderr, "training: %d trees, choices lose %.2f%%\n", trees, 100 * regret);
  });
  write_model(result, out);
  if (call.json()) {
    print_json(result.manifest);
    return kOk;
  }
  Table table({"fold", "problems", "kernels", "mean", "P10", "min", "best of 3", "analytic", "P10", "min"});
  for (const auto& [fold, s] : result.manifest.at("folds").members()) {
    const auto percent = [&scores = s](const char* who, const char* what) {
      return format("%.1f%%", 100 * scores.at(who).at(what).as_double());
    };
    table.add({fold, std::to_string(s.at("problems").as_int()), std::to_string(s.at("rows").as_int()),
               percent("model", "mean"), percent("model", "p10"), percent("model", "min"),
               percent("model", "top3_mean"), percent("analytic", "mean"), percent("analytic", "p10"),
               percent("analytic", "min")});
  }
  print(table.text());
  print(std::to_string(result.model->forest().trees()) + " trees in " + out);
  return kOk;
}

}  // namespace

const Command train_command{.name = "train",
                            .words = "",
                            .summary = "a model from stored measurements (needs XGBoost)",
                            .options = kOptions,
                            .run = run,
                            .uses = kDatabase | kJson};

}  // namespace tessera::cli
