#include "base/text.h"

#include <gtest/gtest.h>

#include <clocale>
#include <cstdio>

#include "base/fs.h"
#include "base/process.h"
#include "tessera/json.h"
#include "variable.h"

namespace tessera {
namespace {

// Programs that use this library may have set their user's locale.
TEST(Text, CsvCellsAreReadAsTheyAreWritten) {
  const std::vector<std::string> cells = {"plain", "", "a,b", "say \"so\"", "two words", "\""};
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + csv_cell(cell);
  EXPECT_EQ(csv_cells(line), cells) << line;
  EXPECT_EQ(csv_cells(""), (std::vector<std::string>{""}));
  EXPECT_EQ(csv_cells(" a , b,"), (std::vector<std::string>{"a", "b", ""}));
  EXPECT_EQ(csv_cells("\"a"), std::nullopt);
  EXPECT_EQ(csv_cells("\"a\"b,c"), std::nullopt);
}

TEST(Text, ControlCharactersAreShown) { EXPECT_EQ(printable("a\x1b]\tb\n\xc3\xa9"), "a\\x1b]\tb\n\xc3\xa9"); }

TEST(Text, NumbersHaveAPointInEveryLocale) {
  const TempDir dir(temp_directory());
  const std::string name = "de_DE.UTF-8";
  if (find_program("localedef").empty() || !path_exists("/usr/share/i18n/locales/de_DE"))
    GTEST_SKIP() << "no sources of locales here (apt install locales)";
  run_process({"localedef", "-i", "de_DE", "-f", "UTF-8", dir.path() + '/' + name}, "", 60);
  const Variable path("LOCPATH", dir.path());
  ASSERT_NE(std::setlocale(LC_ALL, name.c_str()), nullptr);
  char plain[16];
  std::snprintf(plain, sizeof plain, "%.1f", 0.5);
  EXPECT_STREQ(plain, "0,5") << "this locale tests nothing";
  EXPECT_EQ(format("%.1f %g", 0.5, 1e-7), "0.5 1e-07");
  EXPECT_EQ(number_text(0.25), "0.25");
  EXPECT_EQ(parse_number("0.25"), 0.25);
  EXPECT_EQ(Json(0.5).dump(), "0.5");
  EXPECT_EQ(Json::parse("[0.5]").at(0).as_double(), 0.5);
  std::snprintf(plain, sizeof plain, "%.1f", 0.5);
  EXPECT_STREQ(plain, "0,5") << "the caller's locale is left as it was";
  std::setlocale(LC_ALL, "C");
}

}  // namespace
}  // namespace tessera
