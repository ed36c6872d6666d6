// What `--json` prints has the keys that docs/cli.md promises.
#include <map>

#include "base/fs.h"
#include "base/text.h"
#include "program.h"

namespace tessera {
namespace {

// The rows of the page's table: verb -> names between backquotes.
std::map<std::string, std::set<std::string>> documented() {
  std::map<std::string, std::set<std::string>> out;
  const std::string page = read_file(TESSERA_SOURCE_DIR "/docs/cli.md");
  const size_t begin = page.find("## What `--json` gives");
  const std::string section = page.substr(begin, page.find("\n## ", begin) - begin);
  for (std::string_view line : split(section, '\n')) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string_view> words = split(line, '`');  // every second is a name
    for (size_t i = 3; i < words.size(); i += 2) out[std::string(words[1])].insert(std::string(words[i]));
  }
  return out;
}

Json first(const Json& rows) { return rows.at(0); }

TEST(Json, KeysAreThoseOfThePage) {
  const TempDir dir(temp_directory());
  const std::string d = dir.path() + '/', db = " --db " + d + "tune.sqlite",
                    cache = " --cache-dir " + d + "c", problem = kProblem;
  auto pages = documented();
  ASSERT_GT(pages.size(), 25u);
  const auto expect = [&](const std::string& verb, const Json& said) {
    EXPECT_EQ(keys(said), pages[verb]) << verb;
    pages.erase(verb);
  };
  const std::string quick = " --threads 1 --budget-ms 1 --quiet";
  expect("run", json_of("run " + problem + quick));
  expect("explain", json_of("explain --top 1 " + problem));
  expect("emit", json_of("emit " + problem));
  expect("bench", json_of("bench " + problem + quick));
  expect("build", json_of("build --quiet " + problem));
  expect("generate", json_of("generate --arch x86_avx2 --dtype f32 --layout rcr --preselected latency --quiet"
                             " --out " +
                             d + "sources"));
  expect("arch list", first(json_of("arch list")));
  expect("cache stats", json_of("cache stats" + cache));
  expect("cache verify", json_of("cache verify" + cache));
  expect("cache gc", json_of("cache gc" + cache));
  expect("cache clear", json_of("cache clear" + cache));
  expect("pack create", json_of("pack create --quiet " + problem + " --out " + d + "p.pack"));
  expect("pack list", first(json_of("pack list " + d + "p.pack")));
  expect("pack check", first(json_of("pack check " + d + "p.pack")));
  write_file(d + "k.set", "any cpu_packed\n");
  expect("registry check", json_of("registry check " + d + "k.set"));
  expect("sweep plan", json_of("sweep plan " + d + "s " + problem +
                               " --threads 1 --candidates guided:6"));  // times of a slow moment are left out
  expect("sweep run", json_of("sweep run " + d + "s --budget-ms 1 --quiet"));
  const Json status = json_of("sweep status " + d + "s"),
             merged = json_of("sweep merge " + d + "t " + d + "s");
  std::set<std::string> counts = keys(merged);
  EXPECT_EQ(counts.size(), 9u);
  for (const std::string& key : pages["sweep status"]) {
    if (key != "sweep run") counts.insert(key);
  }
  EXPECT_EQ(keys(status), counts);
  expect("db import", json_of("db import " + d + "s" + db));
  expect("db query", json_of("db query" + db));
  expect("db best", json_of("db best --decide" + db));
  expect("db decisions", [&] {
    Json said = json_of("db decisions" + db);
    return said.set("best", said.at("decisions"));  // the row names that one
  }());
  expect("db verify", json_of("db verify" + db));
  expect("db merge", json_of("db merge " + d + "tune.sqlite --db " + d + "other.sqlite"));
  Json exported = json_of("db export " + d + "a.json" + db);
  for (const std::string& more : {std::string(), " --onto " + d + "a.times"}) {
    const Json said = json_of("db export " + d + "a.times" + more + db);
    for (const auto& [key, value] : said.members()) exported.set(key, value);
  }
  exported.set("--onto", true);
  expect("db export", exported);
  expect("tune", json_of("tune " + problem + quick + " --candidates guided:2" + db));
  expect("search", json_of("search " + problem + quick + " --budget 2"));
  expect("doctor", Json::parse(shell("doctor --json", false).text));  // whatever it finds
  expect("version", json_of("version"));
  for (const char* elsewhere :
       {"arch check", "registry list", "sweep status", "sweep merge", "evaluate", "train"})
    pages.erase(elsewhere);  // told in words, and tested with what they do
  EXPECT_TRUE(pages.empty()) << "not looked at: " << pages.begin()->first;
}

}  // namespace
}  // namespace tessera
