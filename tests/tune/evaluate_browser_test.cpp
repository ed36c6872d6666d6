// The report as a browser lays it out. Skipped where there is no Chromium.
#include <gtest/gtest.h>

#include "base/fs.h"
#include "base/process.h"
#include "tune/evaluate.h"

namespace tessera {
namespace {

std::string browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
    if (std::string path = find_program(name); !path.empty()) return path;
  }
  return "";
}

// Writes into the page what is drawn: of each chart its size, and how many of its marks have a place inside.
constexpr const char* kProbe = R"(<script>
let said = '';
for (const svg of document.querySelectorAll('svg')) {
  const box = svg.getBoundingClientRect();
  let inside = 0, outside = '';
  const marks = svg.querySelectorAll('circle,path,rect,text');
  for (const mark of marks) {
    const m = mark.getBoundingClientRect();
    if (m.left >= box.left - 1 && m.right <= box.right + 1 && m.top >= box.top - 1 && m.bottom <= box.bottom + 1)
      ++inside;
    else
      outside += ' beyond: ' + mark.outerHTML.slice(0, 90);
  }
  said += '[' + svg.id + ' ' + (box.width > 200 && box.height > 30) + ' ' + svg.querySelectorAll('circle').length +
      ' circles ' + (marks.length > 2 && inside === marks.length) + outside + ']';
}
for (const table of document.querySelectorAll('table'))
  said += '[' + table.id + ' ' + table.rows.length + ' rows ' + (table.getBoundingClientRect().height > 20) + ']';
document.body.innerHTML = 'PROBE ' + said + ' END';
</script>)";

TEST(EvaluateInBrowser, ChartsAndTablesAreThere) {
  const std::string program = browser();
  if (program.empty()) GTEST_SKIP() << "no Chromium here: apt-get install chromium";
  Evaluation e{"a<b", {}, 0};
  for (int i = 1; i <= 20; ++i) {
    EvaluatedProblem p{.problem = Problem::parse("gemm m=" + std::to_string(i) + " n=64 k=128 dtype=f32")};
    p.choice = p.best = "cpu_packed tile=4x32 inst=1x16x1";
    p.best_us = 10.0 * i;
    p.choice_us = p.top3_us = p.best_us * (1 + 0.05 * (i % 4));
    p.analytic_us = p.best_us * 1.2;
    p.predicted_us = p.best_us * 0.9;
    p.peer_us = p.best_us * 1.4;
    e.problems.push_back(p);
  }
  e.peer = "library";
  e.importance = {{"log2_m", 0.75}, {"tile_n", 0.25}};
  std::string html = to_html(e);
  const size_t end = html.rfind("</body>");
  html.insert(end == html.npos ? html.size() : end, kProbe);
  const TempDir dir(temp_directory());
  write_file_whole(dir.path() + "/report.html", html);
  const ProcessResult r = run_process(
      {program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
       "--user-data-dir=" + dir.path() + "/profile", "--dump-dom", "file://" + dir.path() + "/report.html"},
      "", 120);
  ASSERT_TRUE(r.ok()) << r.describe() << "\n" << r.out;
  const size_t from = r.out.find("PROBE"), to = r.out.find(" END", from);
  ASSERT_NE(to, r.out.npos) << r.out;
  const std::string said = r.out.substr(from, to - from);
  for (const char* part :
       {"[distribution true 0 circles true]", "[scatter true 20 circles true]",
        "[importance true 0 circles true]", "[scores ", "[regimes ", "[worst 21 rows true]"})
    EXPECT_NE(said.find(part), said.npos) << part << " in " << said;
  EXPECT_EQ(said.find("false"), said.npos) << said;
}

}  // namespace
}  // namespace tessera
