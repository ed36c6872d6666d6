#include "cli/sweep_words.h"

#include <filesystem>

#include "base/cores.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

double duration(const Invocation& call) {
  if (!call.has("--budget")) return 0;
  std::string text = call.value("--budget");
  constexpr std::pair<char, double> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
  double factor = 1;
  for (const auto& [unit, seconds] : kUnits) {
    if (text.ends_with(unit)) {
      text.pop_back();
      factor = seconds;
      break;
    }
  }
  const auto number = parse_number(text);
  if (!number || *number <= 0)
    throw UsageError("--budget takes a time like 90s, 20m or 2h, not '" + call.value("--budget") + "'");
  return *number * factor;
}

std::vector<int> cores(const std::string& text) {
  if (text == "all") return physical_cores();
  try {
    return parse_cores(text);
  } catch (const Error& e) { throw UsageError("--cores: " + std::string(e.what())); }
}

}  // namespace

std::string candidates_word(const Invocation& call, const std::string& otherwise) {
  const std::string text = call.value("--candidates", otherwise);
  usage([&] { check_strategy(text); });
  return text;
}

SweepOptions sweep_options(const Invocation& call) {
  SweepOptions o;
  o.worker = {std::filesystem::read_symlink("/proc/self/exe"), "sweep", "worker"};
  o.cache_dir = call.value("--cache-dir");
  o.jobs = static_cast<int>(call.integer("--jobs", 0, 0, Invocation::kMostJobs));
  o.budget_s = duration(call);
  o.limit_s = call.number("--limit-s", o.limit_s, 0.1);
  o.group = static_cast<size_t>(call.integer("--group", static_cast<int64_t>(o.group), 1));
  if (call.has("--cores")) o.cores = cores(call.value("--cores"));
  o.ready = call.has("--ready");
  o.batch = static_cast<size_t>(call.integer("--batch", 0));
  o.timing.budget_ms = call.number("--budget-ms", o.timing.budget_ms);
  o.timing.cold = call.has("--cold");
  o.repeat_disturbed = static_cast<int>(call.integer("--repeat", o.repeat_disturbed, 0));
  if (call.has("--shard")) {
    const std::string text = call.value("--shard");
    const auto parts = split(text, '/');
    const auto i = parse_int(parts[0]), n = parts.size() == 2 ? parse_int(parts[1]) : std::nullopt;
    if (!i || !n || *i < 1 || *i > *n || *n > 100000)
      throw UsageError("--shard takes I/N with 1 <= I <= N, not '" + text + "'");
    o.shard = static_cast<int>(*i) - 1;
    o.shards = static_cast<int>(*n);
  }
  return o;
}

void SweepBars::operator()(const SweepProgress& p) {
  if (quiet_) return;
  if (stage_ != p.stage) bar_ = std::make_unique<Progress>(stage_ = p.stage, p.total);
  bar_->update(p.done, p.total, p.what);
}

}  // namespace tessera::cli
