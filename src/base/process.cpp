#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "base/clock.h"
#include "base/fs.h"
#include "base/interrupt.h"
#include "base/text.h"

namespace tessera {
namespace {

// Where programs are looked for without a PATH.
constexpr std::string_view kUsualPath = "/usr/local/bin:/usr/bin:/bin";

constexpr size_t kMaxOutput = size_t{16} << 20;
constexpr long kLook = 100;  // milliseconds

// Files in memory carry stdin and the output: no pipe to feed or drain while the child runs, no SIGPIPE.
FileHandle memory_file(const char* name, std::string_view text) {
  FileHandle file(memfd_create(name, MFD_CLOEXEC));
  // Clear of the standard descriptors, which the caller may have closed and the child gets over-written.
  if (file && file.get() <= STDERR_FILENO) file = FileHandle(fcntl(file.get(), F_DUPFD_CLOEXEC, 3));
  if (file && !write_all(file.get(), text)) return {};
  if (file) lseek(file.get(), 0, SEEK_SET);
  return file;
}

std::string read_back(int fd) {
  struct stat file {};
  const bool known = fstat(fd, &file) == 0;
  std::string text(known ? std::min(kMaxOutput, static_cast<size_t>(file.st_size)) : kMaxOutput, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t n = pread(fd, text.data() + length, text.size() - length, static_cast<off_t>(length));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    length += static_cast<size_t>(n);
  }
  text.resize(length);
  return text;
}

// What the child needs, worked out before the fork: after vfork it shares our memory and may only make system
// calls.
struct ChildPlan {
  const char* path;
  char* const* argv;
  char* const* environment;
  int in, out;
  sigset_t mask;
  pid_t parent;
};

[[noreturn]] void become(const ChildPlan& plan, volatile int* error) {
  // Handlers of this process must not run in the child, whose memory they share.
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (int s = 1; s < NSIG; ++s) {
    struct sigaction current {};
    if (sigaction(s, nullptr, &current) == 0 && current.sa_handler != SIG_DFL &&
        current.sa_handler != SIG_IGN) {
      sigaction(s, &plain, nullptr);
    }
  }
  sigaction(SIGPIPE, &plain, nullptr);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);  // the parent died before the line above
  if (dup2(plan.in, STDIN_FILENO) >= 0 && dup2(plan.out, STDOUT_FILENO) >= 0 &&
      dup2(plan.out, STDERR_FILENO) >= 0) {
    sigprocmask(SIG_SETMASK, &plan.mask, nullptr);
    execve(plan.path, plan.argv, plan.environment);
  }
  *error = errno;
  _exit(127);
}

pid_t start(ChildPlan& plan, int* error) {
  // vfork: the cost does not grow with the memory this process maps.
  volatile int child_error = 0;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &plan.mask);
  const pid_t pid = vfork();                 // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (pid == 0) become(plan, &child_error);  // NOLINT(clang-analyzer-unix.Vfork)
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &plan.mask, nullptr);
  *error = pid < 0 ? fork_error : child_error;
  return pid;
}

// Entries of this process's environment that `replaced` does not name.
std::vector<char*> inherited(const std::vector<std::string>& replaced) {
  std::vector<char*> kept;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    if (std::none_of(replaced.begin(), replaced.end(), [&](const std::string& r) {
          return std::string_view(r).substr(0, name.size()) == name;
        })) {
      kept.push_back(*entry);
    }
  }
  return kept;
}

// As exec wants it: `first`, then `second`, then null.
std::vector<char*> pointers(const std::vector<std::string>& first, const std::vector<char*>& second) {
  std::vector<char*> all;
  all.reserve(first.size() + second.size() + 1);
  for (const std::string& text : first) all.push_back(const_cast<char*>(text.c_str()));
  all.insert(all.end(), second.begin(), second.end());
  all.push_back(nullptr);
  return all;
}

// True when the child ended before the deadline and before an interrupt; its status is then left to be
// collected.
bool wait_until(pid_t pid, Clock::time_point deadline) {
  FileHandle handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  for (;;) {
    siginfo_t ended{};
    const int waited = waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (waited == 0 && ended.si_pid == pid) return true;
    if (waited != 0 && errno == ECHILD) return true;  // SIGCHLD is ignored in this process: collected already
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || interrupted()) return false;
    // A signal wakes only one thread, so look up now and then; every few milliseconds in kernels without
    // pidfd.
    pollfd watched{handle.get(), POLLIN, 0};
    poll(&watched, handle ? 1 : 0, static_cast<int>(std::min<long>(left, handle ? kLook : 2)));
  }
}

}  // namespace

std::string ProcessResult::describe() const {
  switch (end) {
    case End::exited: return "exited with status " + std::to_string(code);
    case End::signaled: return "was killed by signal " + std::to_string(code) + " (" + strsignal(code) + ")";
    case End::timed_out: return "did not finish within " + format("%.0f s", seconds) + " and was stopped";
    case End::interrupted: return "was stopped by an interrupt";
    case End::not_started: return std::string("could not be started (") + strerror(code) + ")";
  }
  return {};
}

std::string find_program(std::string_view name) {
  auto usable = [](const std::string& path) {
    struct stat st {};
    return stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && access(path.c_str(), X_OK) == 0;
  };
  if (name.empty()) return {};
  if (name.find('/') != name.npos) return usable(std::string(name)) ? std::string(name) : std::string();
  const char* path = std::getenv("PATH");
  for (std::string_view folder : split(path ? path : kUsualPath, ':')) {
    if (folder.empty()) continue;  // an empty piece would mean the current directory
    std::string candidate = std::string(folder) + '/' + std::string(name);
    if (usable(candidate)) return candidate;
  }
  return {};
}

ProcessResult run_process(const std::vector<std::string>& argv, std::string_view input, double timeout_s,
                          const std::vector<std::string>& environment) {
  const auto began = Clock::now();
  ProcessResult result;
  auto fail = [&](int error) {
    result.end = ProcessResult::End::not_started;
    result.code = error;
    return result;
  };
  const std::string program = argv.empty() ? std::string() : find_program(argv[0]);
  if (program.empty()) return fail(ENOENT);
  FileHandle in = memory_file("stdin", input);
  FileHandle out = memory_file("output", {});
  if (!in || !out) return fail(errno);
  const std::vector<char*> arguments = pointers(argv, {});
  std::vector<std::string> replaced = environment;
  if (!std::getenv("PATH"))
    replaced.push_back("PATH=" + std::string(kUsualPath));  // compilers look for ld there
  const std::vector<char*> variables = pointers(replaced, inherited(replaced));
  ChildPlan plan{program.c_str(), arguments.data(), variables.data(), in.get(), out.get(), {}, getpid()};
  int error = 0;
  const pid_t pid = start(plan, &error);
  if (pid < 0) return fail(error);
  int status = 0;
  const bool ended =
      wait_until(pid, began + std::chrono::microseconds(static_cast<int64_t>(timeout_s * 1e6)));
  if (!ended && kill(-pid, SIGKILL) != 0) kill(pid, SIGKILL);
  // Where SIGCHLD is ignored the status is lost and 0 stands: callers look at what the program made, too.
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  result.seconds = seconds_since(began);
  if (error) return fail(error);
  result.out = read_back(out.get());
  if (!ended) {
    result.end = interrupted() ? ProcessResult::End::interrupted : ProcessResult::End::timed_out;
  } else if (WIFSIGNALED(status)) {
    result.end = ProcessResult::End::signaled;
    result.code = WTERMSIG(status);
  } else {
    result.end = ProcessResult::End::exited;
    result.code = WEXITSTATUS(status);
  }
  return result;
}

}  // namespace tessera
