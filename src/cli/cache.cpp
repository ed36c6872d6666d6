#include "base/fs.h"
#include "base/text.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "runtime/kernel_cache.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

constexpr Option kOptions[] = {
    of("gc", {"--max-mb", "MB", "least recently used entries go until this much is left (1024)"}),
    of("verify", {"--repair", "", "delete the bad entries"}),
};

KernelCache open_cache(const Invocation& call) {
  const std::string directory = call.value("--cache-dir", user_cache_directory());
  if (path_exists(directory) && !is_directory(directory))
    throw Error(ErrorCode::io, "the kernel cache '" + directory + "' is no directory",
                "name another with --cache-dir or TESSERA_CACHE_DIR");
  return KernelCache({.directory = call.value("--cache-dir"), .packs = call.each("--pack")});
}

// {"a": 1, "b": [...]} as lines.
void show(const Invocation& call, const Json& data) {
  if (call.json()) {
    print_json(data);
    return;
  }
  for (const auto& [key, value] : data.members()) {
    if (value.is_array() && value.size() > 0) {
      print(key + ":");
      for (const Json& item : value.items())
        print("  " + (item.is_string() ? item.as_string() : item.dump()));
    } else {
      print(key + ": " + (value.is_string() ? value.as_string() : value.dump()));
    }
  }
}

int stats(const Invocation& call) {
  call.no_more_words(0);
  show(call, open_cache(call).stats());
  return kOk;
}

int verify(const Invocation& call) {
  call.no_more_words(0);
  const Json result = open_cache(call).verify(call.has("--repair"));
  show(call, result);
  const size_t left = result.at("bad").size() - static_cast<size_t>(result.at("removed").as_int());
  if (left == 0) return kOk;
  return say_failed("corrupt: " + std::to_string(left) + " damaged; " +
                        (call.has("--repair") ? "what could not be removed is in a pack, or cannot be written"
                                              : "--repair removes those of the cache"),
                    call.reproduce());
}

int collect(const Invocation& call) {
  call.no_more_words(0);
  show(call, open_cache(call).collect(call.integer("--max-mb", 1024) * kMiB));
  return kOk;
}

int clear(const Invocation& call) {
  call.no_more_words(0);
  show(call, Json::object({{"removed", open_cache(call).clear()}}));
  return kOk;
}

constexpr unsigned kUses = kCache | kPacks | kJson;

constexpr Action kActions[] = {
    {"stats", "", "entries, bytes, directory", stats, kUses},
    {"verify", "", "check every entry against its checksum", verify, kUses},
    {"gc", "", "delete least recently used entries", collect, kUses},
    {"clear", "", "delete every entry", clear, kUses},
};

}  // namespace

const Command cache_command{.name = "cache",
                            .words = "",
                            .summary = "the kernel cache: stats, verify, gc, clear",
                            .options = kOptions,
                            .run = nullptr,
                            .actions = kActions};

}  // namespace tessera::cli
