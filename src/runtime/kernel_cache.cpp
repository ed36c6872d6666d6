#include "runtime/kernel_cache.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "runtime/kernel_cache_store.h"
#include "runtime/pack.h"
#include "tessera/error.h"

namespace tessera {
namespace {

using From = CacheResult::From;

// Longer than a compile may take: after that the other builder is taken for dead or stopped. Long before it
// the user is told what is waited for.
constexpr std::chrono::seconds kLockPatience{90}, kSilence{2};
constexpr std::chrono::milliseconds kFirstLook{1}, kLastLook{20};

// Below the limit by this much after a collection, so that the next entries do not each start one.
constexpr double kCollectTo = 0.9;

}  // namespace

struct KernelCache::Impl {
  explicit Impl(Options o)
      : options(std::move(o)),
        named(!options.directory.empty()),
        store(named ? options.directory : user_cache_directory(), options.read_only) {
    for (const std::string& path : options.packs) {
      packs.push_back(Pack::open(path));
      if (!packs.back()->of_this_build()) {
        warn_once("other pack " + path,
                  "pack '" + path + "' was " + std::string(kOfAnotherBuild) + "; create it again");
      }
    }
    if (!named && getenv("TESSERA_CACHE_DIR")) named = true;
    usable();
  }

  // A directory of others' is refused where the user named it and done without where it is the default.
  bool usable() {
    if (store.root().empty()) {
      warn_once("no cache", "kernels are not cached: no HOME; set TESSERA_CACHE_DIR to a directory of yours");
      return false;
    }
    const std::string why = store.why_unusable();
    if (why.empty()) return true;
    const std::string remedy =
        "chmod 700 and chown it to yourself, or set TESSERA_CACHE_DIR to a directory of yours";
    const std::string what = "kernel cache directory '" + store.root() + "' holds code and " + why;
    if (named) throw Error(ErrorCode::io, what, remedy);
    warn_once("unusable " + store.root(), what + "; kernels are not cached: " + remedy);
    return false;
  }

  void warn_uncached(const Error& e) {
    warn_once("uncached " + store.root(),
              "kernels are not cached: " + e.what_happened() +
                  "; free space or set TESSERA_CACHE_DIR to a directory that can be written");
  }

  // Opened without the lock: what is wrong with one is told to the user's own function.
  std::vector<std::shared_ptr<const Pack>> standard_packs(const std::string& arch) {
    {
      std::lock_guard lock(mutex);
      if (const auto found = standard.find(arch); found != standard.end()) return found->second;
    }
    std::vector<std::shared_ptr<const Pack>> opened;
    for (const std::string& path :
         options.standard_packs ? standard_pack_paths(arch) : std::vector<std::string>()) {
      try {
        opened.push_back(Pack::open(path));
      } catch (const Error& e) { warn_once("pack " + path, std::string(e.what())); }
    }
    std::lock_guard lock(mutex);
    return standard.try_emplace(arch, std::move(opened)).first->second;
  }

  template <class F>
  auto in_packs(const Source& source, F&& look) -> decltype(look(std::declval<const Pack&>())) {
    for (const auto& pack : packs) {
      if (auto found = look(*pack)) return found;
    }
    for (const auto& pack : standard_packs(source.arch)) {
      if (auto found = look(*pack)) return found;
    }
    return {};
  }

  // Waits for whoever else builds `entry`, unless it appears meanwhile. Without a lock (no room, no lock
  // support) the build goes on: publishing settles who was first.
  FileLock lock_entry(const std::string& entry, const std::function<bool()>& appeared) {
    std::string path;
    try {
      path = store.lock_path(entry);
    } catch (const Error& e) {
      warn_uncached(e);
      return {};
    }
    const auto began = Clock::now(), deadline = began + kLockPatience;
    for (auto pause = kFirstLook;; pause = std::min(pause * 2, kLastLook)) {
      FileLock lock = FileLock::try_lock(path);
      if (lock) lock.note(std::to_string(getpid()));
      if (lock || lock.error() || appeared() || Clock::now() > deadline) return lock;
      throw_if_interrupted();
      if (Clock::now() - began > kSilence) warn_waiting(path);
      std::this_thread::sleep_for(pause);
    }
  }

  static void warn_waiting(const std::string& path) {
    const std::string holder = try_read_file(path).value_or("");
    warn_once("waiting " + path, "another process" + (holder.empty() ? "" : " (" + holder + ")") +
                                     " has been building a kernel for " + std::to_string(kSilence.count()) +
                                     " s or more; waiting for it, up to " +
                                     std::to_string(kLockPatience.count()) + " s (lock '" + path + "')");
  }

  Binary compile(const Source& source, const Backend& backend, bool writable) {
    if (!writable) return backend.compile(source, "");
    try {
      return backend.compile(source, store.scratch());
    } catch (const Error& e) {
      // A full disk is a reason not to cache, not a reason not to compile.
      if (e.code() != ErrorCode::io || store.why_unwritable().empty()) throw;
      warn_uncached(e);
      return backend.compile(source, "");
    }
  }

  void remember(const std::string& entry, const Error& error, const std::string& compiler, bool writable) {
    {
      std::lock_guard lock(mutex);
      failures.insert_or_assign(entry, error);
    }
    if (!writable) return;
    try {
      store.publish_failure(entry, error, compiler);
      std::lock_guard lock(mutex);
      failures.erase(entry);  // on disk, where another process may clear it
    } catch (const Error& e) { warn_uncached(e); }
  }

  void throw_known_failure(const std::string& entry, bool readable) {
    if (readable) {
      if (auto failure = store.find_failure(entry)) throw *failure;
    }
    std::lock_guard lock(mutex);
    if (auto found = failures.find(entry); found != failures.end()) throw found->second;
  }

  void publish(const std::string& entry, const Binary& binary, const Source& source,
               const std::string& compiler) {
    try {
      const int64_t added = store.publish(entry, binary, source, compiler);
      std::lock_guard lock(mutex);
      if (bytes < 0) {
        bytes = 0;
        for (const auto& e : store.entries()) bytes += e.bytes;
        store.sweep();
      } else {
        bytes += added;
      }
      if (bytes > options.max_bytes)
        collect(static_cast<int64_t>(static_cast<double>(options.max_bytes) * kCollectTo));
    } catch (const Error& e) { warn_uncached(e); }
  }

  CacheResult build(const std::string& unit, const std::string& compiler, const Source& source,
                    const Backend& backend) {
    const bool readable = usable();
    const bool writable = readable && !options.read_only;
    const std::string entry = CacheStore::entry_name(unit, compiler);
    const std::string failure = CacheStore::entry_name(unit, compiler + '\n' + backend.compiler_file());
    auto find = [&] { return readable ? store.find(unit, compiler, source) : std::nullopt; };
    if (auto hit = find()) return {std::move(*hit), From::disk, 0};
    throw_known_failure(failure, readable);

    FileLock lock;
    if (writable && !compiler.empty()) {
      lock = lock_entry(entry, [&] { return store.contains(unit, compiler); });
      if (auto hit = find()) return {std::move(*hit), From::disk, 0};
      throw_known_failure(failure, readable);
    }
    try {
      CacheResult result{compile(source, backend, writable), From::compiled, 0};
      if (writable) publish(entry, result.binary, source, compiler);
      return result;
    } catch (const Error& e) {
      // Only what this very compiler thinks of this unit is worth remembering.
      if (e.code() == ErrorCode::compile_failed && !compiler.empty())
        remember(failure, e, compiler, writable);
      throw;
    }
  }

  // build(), by one thread at a time for each unit and compiler; the others take what it got.
  CacheResult once(const std::string& unit, const Source& source, const Backend& backend) {
    const std::string compiler = backend.compiler_identity();
    const std::string flight_key = unit + compiler;
    std::promise<CacheResult> promise;
    std::shared_future<CacheResult> flight;
    bool leader = false;
    {
      std::lock_guard lock(mutex);
      auto [found, fresh] = flights.try_emplace(flight_key);
      if (fresh) found->second = promise.get_future().share();
      flight = found->second;
      leader = fresh;
    }
    if (leader) {
      try {
        promise.set_value(build(unit, compiler, source, backend));
      } catch (...) { promise.set_exception(std::current_exception()); }
      std::lock_guard lock(mutex);
      flights.erase(flight_key);
    }
    return flight.get();
  }

  Json collect(int64_t limit) {  // with `mutex` held
    std::vector<CacheStore::Entry> all = store.entries();
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.used_ns < b.used_ns; });
    int64_t total = 0, removed = 0, freed = 0;
    for (const auto& e : all) total += e.bytes;
    for (const auto& e : all) {
      if (total <= limit || options.read_only) break;
      store.remove(e);
      if (path_exists(e.path)) continue;
      total -= e.bytes;
      freed += e.bytes;
      ++removed;
    }
    if (!options.read_only) store.sweep();
    bytes = total;
    return Json::object({{"removed", removed},
                         {"freed_bytes", freed},
                         {"entries", static_cast<int64_t>(all.size()) - removed},
                         {"bytes", total}});
  }

  Options options;
  bool named;  // by the caller or TESSERA_CACHE_DIR
  CacheStore store;
  std::vector<std::shared_ptr<const Pack>> packs;

  std::mutex mutex;                                                                    // of what follows
  std::unordered_map<std::string, std::vector<std::shared_ptr<const Pack>>> standard;  // by architecture
  std::unordered_map<std::string, std::shared_future<CacheResult>> flights;
  std::unordered_map<std::string, Error> failures;  // those that could not be written down
  int64_t bytes = -1;                               // in the store, once known
};

KernelCache::KernelCache(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
KernelCache::~KernelCache() = default;

CacheResult KernelCache::get_or_build(const Source& source, const Backend& backend) {
  const auto began = Clock::now();
  const std::string unit = unit_key(source);
  auto packed = impl_->in_packs(source, [&](const Pack& pack) { return pack.find(unit); });
  if (packed) return {std::move(*packed), From::pack, ms_since(began)};
  CacheResult result = impl_->once(unit, source, backend);
  result.ms = ms_since(began);
  return result;
}

CacheResult KernelCache::build_anew(const Source& source, const Backend& backend) {
  const auto began = Clock::now();
  if (impl_->options.read_only) {
    Binary binary = backend.compile(source, "");
    return {std::move(binary), From::compiled, ms_since(began)};
  }
  discard(source, backend);
  CacheResult result = impl_->once(unit_key(source), source, backend);
  result.ms = ms_since(began);
  return result;
}

void KernelCache::discard(const Source& source, const Backend& backend) {
  if (impl_->usable()) impl_->store.discard(unit_key(source), backend.compiler_identity());
}

bool KernelCache::contains(const Source& source, const Backend& backend) const {
  const std::string unit = unit_key(source);
  if (impl_->in_packs(source, [&](const Pack& pack) { return pack.contains(unit); })) return true;
  return impl_->usable() && impl_->store.contains(unit, backend.compiler_identity());
}

std::string KernelCache::why_unwritable() {
  if (!impl_->usable()) return "its directory cannot be used";
  if (impl_->options.read_only) return "it is read-only";
  std::string why = impl_->store.why_unwritable();
  if (why.empty()) impl_->store.sweep();
  return why;
}

const std::string& KernelCache::directory() const { return impl_->store.root(); }
std::span<const std::shared_ptr<const Pack>> KernelCache::packs() const { return impl_->packs; }

Json KernelCache::stats() const {
  int64_t entries = 0, bytes = 0;
  for (const auto& e : impl_->store.entries()) {
    ++entries;
    bytes += e.bytes;
  }
  Json packs = Json::array();
  for (const auto& pack : impl_->packs) packs.push(pack->describe());
  return Json::object({{"directory", directory()},
                       {"entries", entries},
                       {"bytes", bytes},
                       {"limit_bytes", impl_->options.max_bytes},
                       {"failures", static_cast<int64_t>(impl_->store.failures())},
                       {"read_only", impl_->options.read_only},
                       {"packs", packs}});
}

Json KernelCache::verify(bool repair) {
  int64_t checked = 0, removed = 0;
  Json bad = Json::array();
  for (const auto& entry : impl_->store.entries()) {
    ++checked;
    const std::string why = impl_->store.why_damaged(entry);
    if (why.empty()) continue;
    bad.push(Json::object({{"entry", entry.path}, {"reason", why}}));
    if (repair && !impl_->options.read_only) {
      impl_->store.remove(entry);
      removed += !path_exists(entry.path);
    }
  }
  for (const auto& pack : impl_->packs) {
    checked += static_cast<int64_t>(pack->size());
    for (const std::string& symbol : pack->damaged()) {
      bad.push(
          Json::object({{"entry", pack->path() + ":" + symbol}, {"reason", "does not match its checksum"}}));
    }
  }
  return Json::object({{"checked", checked},
                       {"good", checked - static_cast<int64_t>(bad.size())},
                       {"bad", bad},
                       {"removed", removed}});
}

Json KernelCache::collect(int64_t max_bytes) {
  std::lock_guard lock(impl_->mutex);
  return impl_->collect(max_bytes);
}

int64_t KernelCache::clear() {
  std::lock_guard lock(impl_->mutex);
  const int64_t removed = impl_->collect(0).at("removed").as_int();
  if (!impl_->options.read_only) impl_->store.forget_failures();
  impl_->failures.clear();
  return removed;
}

}  // namespace tessera
