#include "backend/cpu/compile.h"

#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "backend/compile_log.h"
#include "backend/cpu/shared_object.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::string_view kUsualNames[] = {"g++", "clang++", "c++"};

constexpr std::string_view kCodeFlags[] = {"-std=c++20",      "-O2",
                                           "-fPIC",           "-ffp-contract=fast",
                                           "-fno-math-errno", "-fno-exceptions",
                                           "-fno-rtti",       "-fvisibility=hidden"};

// GCC's passes that take an eighth of its time and leave the loops of kernels as they are. clang knows not
// all of these words.
constexpr std::string_view kGccFlags[] = {"-fno-tree-vrp", "-fno-thread-jumps", "-fno-gcse"};

// No run-time library, a small image: what is left is the compiler proper. The unit has no headers and calls
// nothing but memcpy and the like, which the process that loads it has.
constexpr std::string_view kImageFlags[] = {
    "-fno-asynchronous-unwind-tables",           "-shared", "-nostdlib",
    "-Wl,-z,noseparate-code,--build-id=none,-s", "-pipe",   "-w"};

constexpr double kVersionTimeoutS = 10;
constexpr int64_t kIdentityDays = 1;

constexpr std::string_view kInstall =
    "install one (apt install g++), name one in TESSERA_CXX, or use a pack of prebuilt kernels";

// What a compiler prints when it did not get to judge the unit, though it names a place in it.
constexpr std::string_view kTransient[] = {"terminated program",
                                           "No space left on device",
                                           "unable to execute command",
                                           "Cannot allocate memory",
                                           "out of memory",
                                           "File too large",
                                           "Resource temporarily unavailable",
                                           "final link failed"};

std::string variable(const char* name) {
  const char* text = getenv(name);
  return text ? text : "";
}

bool is_gcc(const std::string& identity) { return identity.find("gcc version ") != identity.npos; }

std::vector<std::string> own_flags(bool gcc) {
  std::vector<std::string> flags(std::begin(kCodeFlags), std::end(kCodeFlags));
  if (gcc) flags.insert(flags.end(), std::begin(kGccFlags), std::end(kGccFlags));
  flags.insert(flags.end(), std::begin(kImageFlags), std::end(kImageFlags));
  return flags;
}

std::vector<std::string> command_of(std::string_view text) {
  std::vector<std::string> command;
  for (std::string_view word : split_words(text)) command.emplace_back(word);
  return command;
}

// From `<compiler> -v`: the lines that tell version and target, and no paths.
std::string version_text(const std::string& output) {
  std::string text;
  for (std::string_view line : split(output, '\n')) {
    const bool version = line.find(" version ") != line.npos && line.find('/') == line.npos;
    if (version || line.substr(0, 8) == "Target: ")
      text += (text.empty() ? "" : "; ") + std::string(trim(line));
  }
  return text;
}

std::string text_of(const FileStamp& stamp) {
  return std::to_string(stamp.size) + ' ' + std::to_string(stamp.modified_ns);
}

// Asking costs a process, so the answer is kept on disk for as long as the program's file is the
// same. Not for ever, because the file may be a wrapper around a compiler that changes. *not_kept: why it
// could not be.
std::string identity_of(const std::vector<std::string>& command, const FileStamp& stamp,
                        std::string* not_kept) {
  const std::string stamp_text = text_of(stamp);
  const std::string cache = user_cache_directory();
  const std::string folder = cache + "/compilers";
  const std::string memo = folder + '/' + content_hash({join(command, "\n"), stamp_text});
  const bool usable = !cache.empty() && (!path_exists(cache) || why_untrusted(cache).empty());
  if (usable) {
    auto age = file_stamp(memo);
    if (age && time(nullptr) - age->modified_ns / 1000000000 < kIdentityDays * 86400) {
      if (auto text = try_read_file(memo); text && !text->empty()) return *text;
    }
  }
  std::vector<std::string> question = command;
  question.push_back("-v");
  const ProcessResult answer = run_process(question, {}, kVersionTimeoutS, {"LC_ALL=C"});
  const std::string version = answer.ok() ? version_text(answer.out) : std::string();
  std::vector<std::string> flags(command.begin() + 1, command.end());
  const std::string suffix = flags.empty() ? "" : "; " + join(flags, " ");
  if (version.empty()) {  // still a compiler, known by its file alone
    const std::string name = command[0].substr(command[0].find_last_of('/') + 1);
    return name + " of unknown version; file " + stamp_text + suffix;
  }
  if (usable) {
    try {
      make_directories(folder);
      write_file_whole(memo, version + suffix, false);
    } catch (const Error& e) { *not_kept = e.what(); }
  }
  return version + suffix;
}

CppCompiler with_command(std::vector<std::string> command, const std::string& path) {
  static std::mutex mutex;
  static auto& identities = *new std::map<std::string, std::string>;  // for threads while the process ends
  CppCompiler found;
  command[0] = path;
  const FileStamp stamp = file_stamp(path).value_or(FileStamp{});
  const std::string key =
      join(command, "\n") + '\n' + std::to_string(stamp.modified_ns) + user_cache_directory();
  std::string not_kept;
  std::unique_lock lock(mutex);
  auto known = identities.find(key);
  if (known == identities.end()) {
    const std::string compiler = identity_of(command, stamp, &not_kept);
    const std::string flags = content_hash(join(own_flags(is_gcc(compiler)), " "));
    known = identities.emplace(key, compiler + "; flags " + flags.substr(0, 8)).first;
  }
  found.identity = known->second;
  lock.unlock();
  if (!not_kept.empty()) log(LogLevel::debug, not_kept);
  found.file = path + ' ' + text_of(stamp);
  found.command = std::move(command);
  return found;
}

// The first line that tells what went wrong, for the error text; the log has all.
std::string summary(const std::string& output) {
  std::string any;
  for (std::string_view line : split(output, '\n')) {
    const bool counts = line.starts_with("collect2: error: ld returned");  // what ld said stands before
    if (!counts && (line.find("error") != line.npos || line.find("failed") != line.npos))
      return std::string(line);
    if (any.empty()) any = std::string(trim(line));
  }
  return any.empty() ? "it printed nothing" : any;
}

bool starts_with_number(std::string_view text) { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

// Whether the compiler read the unit and refused it: "<stdin>:12:3: error: ..." names a place in the unit.
// What it says of itself and of its tools ("g++: fatal error: cannot execute 'as'") is no judgement.
bool judged(const std::string& output) {
  for (std::string_view line : split(output, '\n')) {
    const size_t said = std::min(line.find(" error: "), line.find(" fatal error: "));
    if (said == line.npos || said < 2 || line[said - 1] != ':') continue;
    const size_t place = line.rfind(':', said - 2);
    if (place != line.npos && starts_with_number(line.substr(place + 1))) return true;
  }
  return false;
}

[[noreturn]] void fail(const Source& source, const std::vector<std::string>& command,
                       const ProcessResult& result, const std::string& scratch) {
  using End = ProcessResult::End;
  const std::string what =
      "compiling " + source.symbol + " with " + command[0] + ": the compiler " + result.describe();
  if (result.end == End::not_started) throw Error(ErrorCode::io, what, "check that the program can be run");
  if (result.end == End::interrupted) throw Error(ErrorCode::interrupted, what);
  if (result.end == End::timed_out) {
    throw Error(ErrorCode::io, what,
                "try again on a less busy machine, or name another compiler in TESSERA_CXX");
  }
  const bool transient =
      std::any_of(std::begin(kTransient), std::end(kTransient),
                  [&](std::string_view text) { return result.out.find(text) != result.out.npos; });
  if (result.end == End::signaled || transient) {
    throw Error(ErrorCode::io, what + (result.out.empty() ? "" : " (" + summary(result.out) + ")"),
                "free memory or disk space and try again");
  }
  const std::string see = where_log_is(keep_compile_log(
      source, scratch,
      "command: " + join(command, " ") + "\nresult: the compiler " + result.describe() + "\n" + result.out));
  if (judged(result.out)) throw Error(ErrorCode::compile_failed, what + ": " + summary(result.out), see);
  throw Error(ErrorCode::io, what + " before it had looked at the unit: " + summary(result.out),
              "check that the compiler works, or name another one in TESSERA_CXX; " + see);
}

}  // namespace

std::vector<std::string> cpp_code_flags() { return {std::begin(kCodeFlags), std::end(kCodeFlags)}; }

CppCompiler find_cpp_compiler() {
  const std::string own = variable("TESSERA_CXX");
  if (!own.empty()) {
    const bool one_path = own[0] == '/' && path_exists(own);  // which may hold blanks
    auto command = one_path ? std::vector<std::string>{own} : command_of(own);
    const std::string path = command.empty() ? "" : find_program(command[0]);
    if (!path.empty()) return with_command(std::move(command), path);
    return {{}, {}, {}, "TESSERA_CXX='" + own + "' names no program"};
  }
  if (auto command = command_of(variable("CXX")); !command.empty()) {
    const std::string path = find_program(command[0]);
    if (!path.empty()) return with_command(std::move(command), path);
    warn_once("CXX " + command[0], "CXX='" + command[0] + "' names no program; looking for " +
                                       join(kUsualNames, ", ") + " on PATH");
  }
  for (std::string_view name : kUsualNames) {
    const std::string path = find_program(name);
    if (!path.empty()) return with_command({std::string(name)}, path);
  }
  return {{}, {}, {}, "there is no C++ compiler on PATH, none of " + join(kUsualNames, ", ")};
}

Binary compile_cpp(const Source& source, const std::string& scratch, double timeout_s) {
  CppCompiler compiler = find_cpp_compiler();
  if (compiler.command.empty()) {
    throw Error(ErrorCode::compile_failed, compiler.missing, std::string(kInstall));
  }
  const std::string folder = scratch.empty() ? temp_directory() : scratch;
  TempDir temp(folder);
  const std::string output = temp.path() + "/kernel.so";
  std::vector<std::string> command = std::move(compiler.command);
  const std::vector<std::string> flags = own_flags(is_gcc(compiler.identity));
  command.insert(command.end(), flags.begin(), flags.end());
  command.insert(command.end(), source.flags.begin(), source.flags.end());
  for (std::string_view word : {"-x", "c++", "-", "-o"}) command.emplace_back(word);
  command.push_back(output);

  const ProcessResult result =
      run_process(command, source.unit, timeout_s, {"TMPDIR=" + temp.path(), "LC_ALL=C"});
  if (!result.ok()) fail(source, command, result, folder);
  Binary binary{source.symbol, try_read_file(output).value_or("")};
  if (const std::string why = why_not_shared_object(binary.bytes); !why.empty()) {
    throw Error(ErrorCode::io,
                "compiling " + source.symbol + " with " + command[0] +
                    ": the compiler says that it succeeded, and made " + why,
                "check that the disk is not full, or name another compiler in TESSERA_CXX");
  }
  log(LogLevel::debug, format("compiled %s in %.0f ms", source.symbol.c_str(), result.seconds * 1e3));
  return binary;
}

}  // namespace tessera
