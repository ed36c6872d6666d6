#include "tune/database.h"

#include <map>
#include <optional>
#include <set>

#include "base/fs.h"
#include "base/text.h"
#include "tessera/error.h"
#include "tessera/kernel_config.h"
#include "tessera/problem.h"
#include "tune/sqlite.h"

namespace tessera {
namespace {

using sqlite::execute, sqlite::Statement, sqlite::Transaction;

constexpr int kDatabaseVersion = 1, kApplicationId = 0x54535241;  // "TSRA"

std::string schema() {
  std::string knobs;
  for (const ConfigField& f : config_fields()) knobs += ", " + std::string(f.name) + " INTEGER";
  return "CREATE TABLE device (id INTEGER PRIMARY KEY, arch TEXT, units INTEGER, processor TEXT,"
         " UNIQUE (arch, units, processor));"
         "CREATE TABLE problem (id INTEGER PRIMARY KEY, text TEXT UNIQUE);"
         "CREATE TABLE config (id INTEGER PRIMARY KEY, text TEXT UNIQUE" +
         knobs +
         ");"
         "CREATE TABLE measurement (device INTEGER REFERENCES device, problem INTEGER REFERENCES problem,"
         " config INTEGER REFERENCES config, time INTEGER, outcome TEXT, attempts INTEGER, median_us REAL,"
         " best_us REAL, samples TEXT, anchor_us REAL, cpu_share REAL, max_err REAL, bound REAL, detail TEXT,"
         " tool TEXT, PRIMARY KEY (device, problem, config, time)) WITHOUT ROWID;"
         "CREATE TABLE decision (arch TEXT, units INTEGER, problem TEXT, config TEXT, us REAL, time INTEGER,"
         " PRIMARY KEY (arch, units, problem)) WITHOUT ROWID;";
}

std::string samples_text(const std::vector<double>& samples) {
  std::string out;
  for (double us : samples) out += (out.empty() ? "" : " ") + number_text(us);
  return out;
}

std::vector<double> parse_samples(const std::string& text) {
  std::vector<double> out;
  for (std::string_view word : split_words(text)) {
    if (const auto us = parse_number(word)) out.push_back(*us);
  }
  return out;
}

constexpr std::string_view kSelect =
    "SELECT d.arch, d.units, d.processor, p.text, c.text, m.outcome, m.attempts, m.median_us, m.best_us,"
    " m.samples, m.anchor_us, m.cpu_share, m.max_err, m.bound, m.detail, m.time, m.tool FROM measurement m"
    " JOIN device d ON d.id = m.device JOIN problem p ON p.id = m.problem JOIN config c ON c.id = m.config"
    " ORDER BY d.id, p.id, c.id, m.time";

Measurement measurement_of(const Statement& s) {
  Measurement m;
  m.device = {s.text(0), static_cast<int>(s.integer(1)), s.text(2)};
  m.record = {.problem = s.text(3),
              .config = s.text(4),
              .outcome = parse_sweep_outcome(s.text(5)),
              .attempts = static_cast<int>(s.integer(6)),
              .samples = parse_samples(s.text(9)),
              .median_us = s.real(7),
              .best_us = s.real(8),
              .anchor_us = s.real(10),
              .cpu_share = s.real(11),
              .max_err = s.real(12),
              .bound = s.real(13),
              .detail = s.text(14),
              .time = s.integer(15)};
  m.tool = s.text(16);
  return m;
}

bool matches(const std::string& glob, const std::string& text) {
  return glob.empty() || glob_match(glob, text);
}

bool matches(const MeasurementFilter& f, const Measurement& m) {
  return matches(f.arch, m.device.arch) && matches(f.problem, m.record.problem) &&
         matches(f.config, m.record.config) && matches(f.outcome, std::string(to_string(m.record.outcome)));
}

}  // namespace

struct Database::Impl {
  sqlite::Handle db{nullptr, sqlite3_close};

  int64_t scalar(const std::string& sql) const {
    Statement s(db.get(), sql);
    return s.step() ? s.integer(0) : 0;
  }

  std::vector<const ConfigField*> missing_knobs() const {
    std::set<std::string> there;
    for (Statement s(db.get(), "PRAGMA table_info(config)"); s.step();) there.insert(s.text(1));
    std::vector<const ConfigField*> out;
    for (const ConfigField& f : config_fields()) {
      if (!there.contains(std::string(f.name))) out.push_back(&f);
    }
    return out;
  }

  // Of knobs that the program which made the database did not have: their default is what kernels were like.
  void add_missing_knobs() {
    if (missing_knobs().empty()) return;
    Transaction t(db.get());
    for (const ConfigField* f : missing_knobs()) {  // unless somebody else was first
      execute(db.get(), format("ALTER TABLE config ADD COLUMN %s INTEGER DEFAULT %d",
                               std::string(f->name).c_str(), f->default_value));
    }
    t.commit();
  }

  int64_t device_id(const DeviceInfo& d) {
    Statement find(db.get(), "SELECT id FROM device WHERE arch = ? AND units = ? AND processor = ?");
    find.bind(d.arch).bind(int64_t{d.units}).bind(d.processor);
    if (find.step()) return find.integer(0);
    Statement insert(db.get(), "INSERT INTO device (arch, units, processor) VALUES (?, ?, ?)");
    insert.bind(d.arch).bind(int64_t{d.units}).bind(d.processor).step();
    return sqlite3_last_insert_rowid(db.get());
  }

  int64_t problem_id(const std::string& text) {
    Statement find(db.get(), "SELECT id FROM problem WHERE text = ?");
    if (find.bind(text).step()) return find.integer(0);
    Statement insert(db.get(), "INSERT INTO problem (text) VALUES (?)");
    insert.bind(text).step();
    return sqlite3_last_insert_rowid(db.get());
  }

  int64_t config_id(const std::string& text) {
    Statement find(db.get(), "SELECT id FROM config WHERE text = ?");
    if (find.bind(text).step()) return find.integer(0);
    std::string names = "text", marks = "?";
    const KernelConfig config = KernelConfig::read(text);
    for (const ConfigField& f : config_fields()) {
      names += ", " + std::string(f.name);
      marks += ", ?";
    }
    Statement insert(db.get(), "INSERT INTO config (" + names + ") VALUES (" + marks + ")");
    insert.bind(text);
    for (const ConfigField& f : config_fields()) insert.bind(int64_t{config.*(f.member)});
    insert.step();
    return sqlite3_last_insert_rowid(db.get());
  }
};

Database::Database(const std::string& path, Mode mode, int patience_ms)
    : path_(path), impl_(std::make_unique<Impl>()) {
  if (mode == Mode::write) {
    if (const size_t slash = path.find_last_of('/'); slash != path.npos && slash > 0)
      make_directories(path.substr(0, slash));
  }
  const int flags = mode == Mode::write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  impl_->db.reset(db);
  try {
    if (path_exists(path + "/.")) throw Error(ErrorCode::io, "this is a directory", "name a file");
    if (code != SQLITE_OK) {
      throw Error(
          ErrorCode::io, sqlite3_errmsg(db),
          mode == Mode::read && !path_exists(path) ? "tessera tune or tessera db import makes one" : "");
    }
    if (mode == Mode::write && sqlite3_db_readonly(db, "main") == 1)
      throw Error(ErrorCode::io, "this database may not be written", "see who owns it, or name another file");
    sqlite3_busy_timeout(db, patience_ms);
    if (impl_->scalar("SELECT count(*) FROM sqlite_master") == 0 && mode == Mode::write) {
      Transaction t(db);
      if (impl_->scalar("SELECT count(*) FROM sqlite_master") == 0) {  // nobody else was first
        execute(db, schema());
        execute(db, format("PRAGMA application_id = %d; PRAGMA user_version = %d", kApplicationId,
                           kDatabaseVersion));
      }
      t.commit();
    }
    if (impl_->scalar("PRAGMA application_id") != kApplicationId)
      throw Error(ErrorCode::corrupt, "this is no database of measurements", "name another file");
    if (const int64_t v = impl_->scalar("PRAGMA user_version"); v != kDatabaseVersion) {
      throw Error(ErrorCode::corrupt,
                  "a database of version " + std::to_string(v) + ", not " + std::to_string(kDatabaseVersion),
                  "export it with the program that made it, and import that");
    }
    if (mode == Mode::write) impl_->add_missing_knobs();
  } catch (const Error& e) { throw e.on(path); }
}

Database::~Database() = default;

size_t Database::add(const std::vector<Measurement>& measurements) {
  sqlite3* db = impl_->db.get();
  Transaction t(db);
  const int64_t before = sqlite3_total_changes(db);
  int64_t other = 0;
  Statement insert(db, "INSERT OR IGNORE INTO measurement VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  std::map<std::string, int64_t> problems, configs;  // ids asked for already
  const auto id = [&](auto& known, const std::string& text, auto&& find) {
    const auto [found, fresh] = known.try_emplace(text, 0);
    if (fresh) {
      const int64_t changes = sqlite3_total_changes(db);
      found->second = find();
      other += sqlite3_total_changes(db) - changes;
    }
    return found->second;
  };
  std::map<std::string, int64_t> devices;
  for (const Measurement& m : measurements) {
    const SweepRecord& r = m.record;
    const int64_t device = id(devices, to_json(m.device).dump(), [&] { return impl_->device_id(m.device); });
    const int64_t problem = id(problems, r.problem, [&] { return impl_->problem_id(r.problem); });
    const int64_t config = id(configs, r.config, [&] { return impl_->config_id(r.config); });
    insert.reset();
    insert.bind(device).bind(problem).bind(config).bind(r.time).bind(to_string(r.outcome));
    insert.bind(int64_t{r.attempts}).bind(r.median_us).bind(r.best_us).bind(samples_text(r.samples));
    insert.bind(r.anchor_us).bind(r.cpu_share).bind(r.max_err).bind(r.bound).bind(r.detail).bind(m.tool);
    insert.step();
  }
  t.commit();
  return static_cast<size_t>(sqlite3_total_changes(db) - before - other);
}

void Database::decide(const std::vector<TunedDecision>& decisions) {
  Transaction t(impl_->db.get());
  Statement s(impl_->db.get(), "INSERT OR REPLACE INTO decision VALUES (?, ?, ?, ?, ?, ?)");
  for (const TunedDecision& d : decisions) {
    s.reset();
    s.bind(d.arch).bind(int64_t{d.units}).bind(d.problem).bind(d.config).bind(d.us).bind(d.time).step();
  }
  t.commit();
}

void Database::forget(const std::vector<TunedDecision>& decisions) {
  Transaction t(impl_->db.get());
  Statement s(impl_->db.get(), "DELETE FROM decision WHERE arch = ? AND units = ? AND problem = ?");
  for (const TunedDecision& d : decisions) {
    s.reset();
    s.bind(d.arch).bind(int64_t{d.units}).bind(d.problem).step();
  }
  t.commit();
}

size_t Database::merge(const std::string& other) {
  const Database from(other, Mode::read);
  std::vector<Measurement> measurements;
  from.each({}, [&](const Measurement& m) { measurements.push_back(m); });
  const size_t added = add(measurements);
  Transaction t(impl_->db.get());  // what another process decides meanwhile is newer, and stays
  Statement s(impl_->db.get(),
              "INSERT INTO decision (arch, units, problem, config, us, time) VALUES (?, ?, ?, ?, ?, ?)"
              " ON CONFLICT (arch, units, problem) DO UPDATE SET"
              " config = excluded.config, us = excluded.us, time = excluded.time"
              " WHERE excluded.time > time");
  for (const TunedDecision& d : from.decisions()) {
    s.reset();
    s.bind(d.arch).bind(int64_t{d.units}).bind(d.problem).bind(d.config).bind(d.us).bind(d.time).step();
  }
  t.commit();
  return added;
}

void Database::each(const MeasurementFilter& filter,
                    const std::function<void(const Measurement&)>& visit) const {
  Statement s(impl_->db.get(), std::string(kSelect));
  while (s.step()) {
    const Measurement m = measurement_of(s);
    if (matches(filter, m)) visit(m);
  }
}

std::vector<TunedDecision> Database::decisions(const MeasurementFilter& f) const {
  std::vector<TunedDecision> out;
  Statement s(impl_->db.get(),
              "SELECT arch, units, problem, config, us, time FROM decision"
              " ORDER BY arch, units, problem");
  while (s.step()) {
    TunedDecision d{s.text(0), static_cast<int>(s.integer(1)), s.text(2), s.text(3), s.real(4), s.integer(5)};
    if (matches(f.arch, d.arch) && matches(f.problem, d.problem) && matches(f.config, d.config))
      out.push_back(std::move(d));
  }
  return out;
}

std::vector<TunedDecision> Database::best(const MeasurementFilter& filter) const {
  // The latest measurement of a configuration speaks for it, whatever the device's place in the table; one
  // that is not right has no time.
  std::map<std::tuple<std::string, int, std::string>, std::map<std::string, TunedDecision>> all;
  each(filter, [&](const Measurement& m) {
    const SweepRecord& r = m.record;
    auto& configs = all[{m.device.arch, m.device.units, r.problem}];
    TunedDecision& there = configs[r.config];
    if (!there.config.empty() && r.time < there.time) return;
    const double us = r.outcome == SweepOutcome::ok ? r.median_us : 0;
    there = {m.device.arch, m.device.units, r.problem, r.config, us, r.time};
  });
  std::vector<TunedDecision> out;
  for (auto& [key, configs] : all) {
    const TunedDecision* best = nullptr;
    for (const auto& [text, d] : configs) {
      if (d.us > 0 && (!best || d.us < best->us)) best = &d;
    }
    if (best) out.push_back(*best);
  }
  return out;
}

std::vector<std::string> Database::verify() const {
  std::vector<std::string> wrong;
  for (const char* pragma : {"PRAGMA integrity_check", "PRAGMA foreign_key_check"}) {
    Statement s(impl_->db.get(), pragma);
    while (s.step()) {
      if (s.text(0) != "ok") wrong.push_back(std::string(pragma + 7) + ": " + s.text(0));
    }
  }
  const auto texts = [&](const std::string& sql, auto&& parse) {
    Statement s(impl_->db.get(), sql);
    while (s.step()) {
      try {
        parse(s.text(0));
      } catch (const Error& e) { wrong.push_back("'" + s.text(0) + "': " + e.what()); }
    }
  };
  const auto problem = [](const std::string& text) {
    if (to_string(Problem::parse(text)) != text)
      throw Error(ErrorCode::corrupt, "prints as " + to_string(Problem::parse(text)));
  };
  const auto config = [](const std::string& text) {
    std::string why;
    const auto c = KernelConfig::parse(text, &why);
    if (!c) throw Error(ErrorCode::corrupt, why);
    if (to_string(*c) != text) throw Error(ErrorCode::corrupt, "prints as " + to_string(*c));
  };
  texts("SELECT text FROM problem UNION SELECT problem FROM decision", problem);
  texts("SELECT text FROM config UNION SELECT config FROM decision", config);
  texts("SELECT DISTINCT outcome FROM measurement", [](const std::string& t) { parse_sweep_outcome(t); });
  texts("SELECT DISTINCT samples FROM measurement", [](const std::string& t) {
    if (samples_text(parse_samples(t)) != t) throw Error(ErrorCode::corrupt, "are no times");
  });
  try {
    each({}, [](const Measurement&) {});  // every column, as query and export read it
  } catch (const Error& e) { wrong.push_back(std::string("measurement: ") + e.what()); }
  const int64_t timeless =
      impl_->scalar("SELECT count(*) FROM measurement WHERE (outcome = 'ok') != (median_us > 0)");
  if (timeless) wrong.push_back(std::to_string(timeless) + " measurements whose times belie their outcomes");
  return wrong;
}

}  // namespace tessera
