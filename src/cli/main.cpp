// tessera: see `tessera help`.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/invocation.h"
#include "cli/output.h"
#include "tessera/error.h"

namespace {

int say_interrupted() {
  std::fputs("interrupted\n", stderr);
  return tessera::interrupted_status();
}

// What was printed may not have arrived, on a full disk for example.
int printed(int status, const tessera::cli::Invocation& call) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
  return tessera::cli::say_failed(std::string("io: cannot write the output: ") + std::strerror(errno),
                                  call.reproduce());
}

int fail(const std::exception& e, const tessera::cli::Invocation& call) {
  if (tessera::interrupted()) return say_interrupted();
  return tessera::cli::say_failed(e.what(), call.reproduce());
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tessera::cli;
  Invocation call;
  call.argv.assign(argv + 1, argv + argc);
  try {
    parse_command_line(call);
    if (call.has("--help")) {
      print(help_text(*call.command));
      return printed(kOk, call);
    }
    check_names(call);
    tessera::log_level();  // TESSERA_LOG, refused aloud before anything else is said
    tessera::catch_interrupts();
    const int status = call.action ? call.action->run(call) : call.command->run(call);
    return tessera::interrupted() ? say_interrupted() : printed(status, call);
  } catch (const UsageError& e) {
    std::fprintf(stderr, "error: %s\nusage: %s\n", tessera::printable(e.what()).c_str(),
                 usage_line(call.command).c_str());
    return kUsage;
  } catch (const tessera::Error& e) {
    return e.code() == tessera::ErrorCode::interrupted ? say_interrupted() : fail(e, call);
  } catch (const std::bad_alloc&) {
    return fail(tessera::Error(tessera::ErrorCode::device, "out of memory", "use a smaller problem"), call);
  } catch (const std::exception& e) { return fail(e, call); }
}
