// SQLite's C interface as objects: errors are Error(io), or Error(corrupt) where the file is damaged.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <string>
#include <string_view>

#include "tessera/error.h"

namespace tessera::sqlite {

using Handle = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;

// A prepared statement: bind in order, step, read columns.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& sql) : db_(db) {
    check(sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& bind(std::string_view text) {
    check(sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                            SQLITE_TRANSIENT));
    return *this;
  }
  Statement& bind(int64_t v) {
    check(sqlite3_bind_int64(statement_, ++bound_, v));
    return *this;
  }
  Statement& bind(double v) {
    check(sqlite3_bind_double(statement_, ++bound_, v));
    return *this;
  }
  // True while there is a row.
  bool step() {
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) check(code);
    return code == SQLITE_ROW;
  }
  void reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }
  std::string text(int column) const {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
  }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }

 private:
  void check(int code) const {
    if (code == SQLITE_OK) return;
    const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
    throw Error(damaged ? ErrorCode::corrupt : ErrorCode::io, std::string("database: ") + sqlite3_errmsg(db_),
                damaged ? "restore the file, or remove it and import the sweeps again" : "");
  }

  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

inline void execute(sqlite3* db, const std::string& sql) {
  char* text = nullptr;
  if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &text) == SQLITE_OK) return;
  const int code = sqlite3_errcode(db);
  const std::string why = text ? text : "failed";
  sqlite3_free(text);
  const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
  throw Error(damaged ? ErrorCode::corrupt : ErrorCode::io, "database: " + why);
}

// All or nothing of what happens in its life.
class Transaction {
 public:
  explicit Transaction(sqlite3* db) : db_(db) { execute(db, "BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (db_) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    execute(db_, "COMMIT");
    db_ = nullptr;
  }

 private:
  sqlite3* db_;
};

}  // namespace tessera::sqlite
