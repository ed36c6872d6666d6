#include "program.h"

#include <algorithm>

#include "base/fs.h"
#include "base/text.h"
#include "tessera/error.h"

namespace tessera {

void read_settings(int argc, char** argv, std::span<const Setting> settings, const std::string& source) {
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const auto found =
        std::find_if(settings.begin(), settings.end(), [&](const Setting& s) { return s.name == name; });
    if (found == settings.end())
      throw Error(ErrorCode::bad_input, "unknown option '" + name + "'", "see the head of " + source);
    if (i + 1 == argc) throw Error(ErrorCode::bad_input, "'" + name + "' has no value");
    const std::string value = argv[i + 1];
    if (const auto* text = std::get_if<std::string*>(&found->to)) {
      **text = value;
      continue;
    }
    const auto n = parse_int(value);
    if (!n || *n < found->least) {
      throw Error(ErrorCode::bad_input,
                  name + " is not a number from " + std::to_string(found->least) + " on: '" + value + "'");
    }
    *std::get<int64_t*>(found->to) = *n;
  }
}

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[std::min(v.size() - 1, static_cast<size_t>(q * static_cast<double>(v.size())))];
}

void write_result(const std::string& path, const Json& result) {
  write_file_whole(path, result.dump(1) + '\n');
  std::printf("\nwritten: %s\n", path.c_str());
}

}  // namespace tessera
