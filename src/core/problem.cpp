#include "tessera/problem.h"

#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 1> kOps = {"gemm"};
constexpr std::array<std::string_view, 4> kLayouts = {"rcr", "rrr", "crr", "ccr"};

[[noreturn]] void bad(const std::string& why, const std::string& remedy = {}) {
  throw Error(ErrorCode::bad_input, why, remedy);
}

// dtype=A or dtype=AxB.
void parse_types(Problem& p, std::string_view text) {
  auto type = [&](std::string_view word) {
    auto t = parse_dtype(word);
    if (!t) bad("unknown dtype '" + std::string(word) + "'", "one of " + dtype_names());
    return *t;
  };
  size_t x = text.find('x');
  p.a = type(text.substr(0, x));
  p.b = x == text.npos ? p.a : type(text.substr(x + 1));
}

std::string print_types(const Problem& p) {
  std::string text(to_string(p.a));
  if (p.b != p.a) text += "x" + std::string(to_string(p.b));
  return text;
}

DType parse_one_type(std::string_view text) {
  auto t = parse_dtype(text);
  if (!t) bad("unknown dtype '" + std::string(text) + "'", "one of " + dtype_names());
  return *t;
}

// D tensors follow C where C is a floating type; an integer C takes them in f32.
DType default_d(const Problem& p) { return info(p.out).is_float ? p.out : DType::f32; }

void parse_layout(Problem& p, std::string_view text) {
  for (size_t i = 0; i < kLayouts.size(); ++i) {
    if (text == kLayouts[i]) return void(p.layout = static_cast<Layout>(i));
  }
  bad("unknown layout '" + std::string(text) + "'", "one of rcr rrr crr ccr");
}

int64_t parse_size(std::string_view text) {
  auto v = parse_int(text);
  if (!v) bad("not a 64-bit integer");
  return *v;
}

// A field of the text form. print returns "" for the default, which is then left out.
struct Field {
  std::string_view key;
  bool required;
  void (*parse)(Problem&, std::string_view);
  std::string (*print)(const Problem&);
};

template <int64_t Problem::*member, int64_t default_value>
Field size_field(std::string_view key) {
  return {key, default_value == 0,
          [](Problem& p, std::string_view text) {
            p.*member = parse_size(text);
            if (p.*member < 0) bad("must not be negative");
          },
          [](const Problem& p) { return p.*member == default_value ? "" : std::to_string(p.*member); }};
}

// In the order they print. out and d come after dtype, whose value is their default.
const std::vector<Field>& fields() {
  static const std::vector<Field> table = {
      {"m", true, [](Problem& p, std::string_view t) { p.m = parse_size(t); },
       [](const Problem& p) { return std::to_string(p.m); }},
      {"n", true, [](Problem& p, std::string_view t) { p.n = parse_size(t); },
       [](const Problem& p) { return std::to_string(p.n); }},
      {"k", true, [](Problem& p, std::string_view t) { p.k = parse_size(t); },
       [](const Problem& p) { return std::to_string(p.k); }},
      {"dtype", true, parse_types, print_types},
      {"layout", false, parse_layout, [](const Problem& p) { return std::string(to_string(p.layout)); }},
      size_field<&Problem::batch, 1>("batch"),
      {"epilogue", false,
       [](Problem& p, std::string_view t) {
         std::string why;
         auto e = parse_epilogue(t, &why);
         if (!e) bad(why);
         p.epilogue = *e;
       },
       [](const Problem& p) { return p.epilogue.empty() ? std::string() : to_string(p.epilogue); }},
      {"out", false, [](Problem& p, std::string_view t) { p.out = parse_one_type(t); },
       [](const Problem& p) { return p.out == info(p.a).default_out ? "" : std::string(to_string(p.out)); }},
      {"d", false, [](Problem& p, std::string_view t) { p.d = parse_one_type(t); },
       [](const Problem& p) { return p.d == default_d(p) ? "" : std::string(to_string(p.d)); }},
      {"prepack", false,
       [](Problem& p, std::string_view t) {
         if (t != "b") bad("only B can be prepacked", "prepack=b, or leave it out");
         p.prepack_b = true;
       },
       [](const Problem& p) { return std::string(p.prepack_b ? "b" : ""); }},
      size_field<&Problem::lda, Problem::kPacked>("lda"),
      size_field<&Problem::ldb, Problem::kPacked>("ldb"),
      size_field<&Problem::ldc, Problem::kPacked>("ldc"),
      size_field<&Problem::stride_a, Problem::kPacked>("stride_a"),
      size_field<&Problem::stride_b, Problem::kPacked>("stride_b"),
      size_field<&Problem::stride_c, Problem::kPacked>("stride_c"),
      {"alpha", false,
       [](Problem& p, std::string_view t) {
         auto v = parse_number(t);
         if (!v) bad("not a finite number");
         p.alpha = *v;
       },
       [](const Problem& p) { return p.alpha == 1 ? "" : number_text(p.alpha); }},
      {"beta", false,
       [](Problem& p, std::string_view t) {
         auto v = parse_number(t);
         if (!v) bad("not a finite number");
         p.beta = *v;
       },
       [](const Problem& p) { return p.beta == 0 ? "" : number_text(p.beta); }},
  };
  return table;
}

int64_t checked_product(int64_t x, int64_t y, std::string_view what) {
  int64_t out;
  if (__builtin_mul_overflow(x, y, &out) || out > (int64_t{1} << 60)) {
    bad("the extent of " + std::string(what) + " overflows 64-bit offsets", "use smaller sizes or strides");
  }
  return out;
}

// What parse_epilogue ensures of a text, for an epilogue that was put together by hand.
void check_epilogue(const Epilogue& e) {
  if (e.count < 0 || e.count > Epilogue::kMaxSteps) {
    bad("the epilogue has " + std::to_string(e.count) + " steps",
        "at most " + std::to_string(Epilogue::kMaxSteps));
  }
  if (e.empty()) return;
  for (const EpilogueStep& step : e) {
    if (static_cast<int>(step.kind) >= kEpilogueKindCount) bad("the epilogue has a step of unknown kind");
  }
  std::string why;
  if (!parse_epilogue(to_string(e), &why)) bad(why);
}

// One operand: `rows` runs of `run` contiguous elements, `ld` apart, `stride` between batches.
void check_operand(char name, int64_t rows, int64_t run, int64_t& ld, int64_t& stride, int64_t batch,
                   int bytes, bool written) {
  std::string key(1, name);
  if (ld != Problem::kPacked && ld < run) {
    bad("ld" + key + "=" + std::to_string(ld) + " is less than the " + std::to_string(run) +
            " contiguous elements of a row or column of " + std::string(1, static_cast<char>(name - 32)),
        "give at least " + std::to_string(run) + " or leave it out");
  }
  if (ld == run) ld = Problem::kPacked;
  const int64_t leading = ld == Problem::kPacked ? run : ld;
  const int64_t one = rows == 0 || run == 0 ? 0 : checked_product(rows - 1, leading, key) + run;
  const int64_t packed = checked_product(rows, leading, key);
  if (stride != Problem::kPacked && stride < 0) bad("stride_" + key + " is negative");
  if (stride == packed || batch == 1) stride = Problem::kPacked;
  const int64_t step = stride == Problem::kPacked ? packed : stride;
  if (written && batch > 1) {
    const bool apart = step >= one;
    const bool interleaved = step >= run && checked_product(batch, step, key) <= leading;
    if (!apart && !interleaved) {
      bad("stride_" + key + "=" + std::to_string(step) + " makes the outputs of different batches overlap");
    }
  }
  checked_product(checked_product(batch - 1, step, key) + one, bytes, key);
}

}  // namespace

std::string_view to_string(Layout layout) { return kLayouts[static_cast<size_t>(layout)]; }
std::string_view to_string(Op op) { return kOps[static_cast<size_t>(op)]; }

int64_t Problem::ld_a() const { return lda != kPacked ? lda : a_is_row_major(layout) ? k : m; }
int64_t Problem::ld_b() const { return ldb != kPacked ? ldb : b_is_row_major(layout) ? n : k; }
int64_t Problem::ld_c() const { return ldc != kPacked ? ldc : n; }
int64_t Problem::batch_stride_a() const {
  return stride_a != kPacked ? stride_a : ld_a() * (a_is_row_major(layout) ? m : k);
}
int64_t Problem::batch_stride_b() const {
  return stride_b != kPacked ? stride_b : ld_b() * (b_is_row_major(layout) ? k : n);
}
int64_t Problem::batch_stride_c() const { return stride_c != kPacked ? stride_c : ld_c() * m; }

void Problem::validate() {
  auto at_least = [](std::string_view name, int64_t v, int64_t low) {
    if (v < low)
      bad(std::string(name) + "=" + std::to_string(v) + " must be at least " + std::to_string(low));
  };
  at_least("m", m, 1);
  at_least("n", n, 1);
  at_least("k", k, 0);
  at_least("batch", batch, 1);
  if (!std::isfinite(alpha) || !std::isfinite(beta)) bad("alpha and beta are finite numbers");
  check_epilogue(epilogue);
  for (DType t : {a, b}) {
    if (!info(t).operand) bad("dtype " + std::string(to_string(t)) + " cannot be an operand");
  }
  if (info(a).is_float != info(b).is_float) bad("A and B mix a floating and an integer type");
  if (a != b && info(a).is_float && (bytes_of(a) != 1 || bytes_of(b) != 1)) {
    bad("mixed types " + print_types(*this) + " are not supported", "f8e4m3 with f8e5m2, or u8 with i8");
  }
  if (b == DType::u8) bad("B cannot be u8", "u8 is for A: dtype=u8xi8");
  if (info(a).is_float && !info(out).is_float) bad("floating operands with an integer output");
  if (!info(a).is_float && out != DType::i32 && out != DType::i8 && out != DType::u8 && out != DType::f32) {
    bad("integer operands give i32, f32, i8 or u8, not " + std::string(to_string(out)));
  }
  if (d == DType::u8 || d == DType::i8) bad("D tensors cannot be 8-bit integers", "use d=f32 or d=i32");
  if (out == DType::i32 && (d != DType::f32 && d != DType::i32)) bad("with out=i32, d is f32 or i32");
  if (info(out).is_float && d == DType::i32) bad("a floating output takes floating D tensors");
  const bool a_rows = a_is_row_major(layout), b_rows = b_is_row_major(layout);
  check_operand('a', a_rows ? m : k, a_rows ? k : m, lda, stride_a, batch, bytes_of(a), false);
  check_operand('b', b_rows ? k : n, b_rows ? n : k, ldb, stride_b, batch, bytes_of(b), false);
  check_operand('c', m, n, ldc, stride_c, batch, bytes_of(out), true);
  checked_product(checked_product(m, n, "the work"), k + 1, "the work");
  if (prepack_b) {
    if (ldb != kPacked || (stride_b != kPacked && stride_b != 0)) {
      bad("prepack=b describes B after packing",
          "leave ldb and stride_b out; Kernel::pack_b takes B's own stride");
    }
  }
}

Problem Problem::parse(std::string_view text) {
  Problem p;
  auto words = split_words(text);
  if (words.empty()) bad("empty problem", "for example: gemm m=512 n=512 k=512 dtype=f32");
  if (words[0] != kOps[0]) { bad("unknown operation '" + std::string(words[0]) + "'", "one of gemm"); }
  std::vector<std::string_view> values(fields().size());
  for (size_t i = 1; i < words.size(); ++i) {
    size_t equals = words[i].find('=');
    std::string_view key = words[i].substr(0, equals);
    size_t f = 0;
    while (f < fields().size() && fields()[f].key != key) ++f;
    if (f == fields().size() || equals == words[i].npos) {
      std::vector<std::string> keys;
      for (const Field& field : fields()) keys.emplace_back(field.key);
      std::string hint = nearest(key, keys);
      bad("unknown word '" + std::string(words[i]) + "' in the problem",
          hint.empty() ? "fields are " + join(keys, " ") : "did you mean '" + hint + "='?");
    }
    if (values[f].data()) bad("'" + std::string(key) + "' is given twice");
    values[f] = words[i].substr(equals + 1);
    if (values[f].empty()) bad("'" + std::string(key) + "' has no value");
  }
  for (size_t f = 0; f < fields().size(); ++f) {
    const Field& field = fields()[f];
    if (field.key == "out") p.out = info(p.a).default_out;
    if (field.key == "d") p.d = default_d(p);
    if (values[f].data()) {
      try {
        field.parse(p, values[f]);
      } catch (const Error& e) { throw e.on(std::string(field.key) + '=' + std::string(values[f])); }
    } else if (field.required) {
      bad("the problem has no '" + std::string(field.key) + "'", "add " + std::string(field.key) + "=...");
    }
  }
  p.validate();
  return p;
}

std::string to_string(const Problem& p) {
  std::string text(to_string(p.op));
  for (const Field& field : fields()) {
    std::string value = field.print(p);
    if (!value.empty()) text += ' ' + std::string(field.key) + '=' + value;
  }
  return text;
}

uint64_t hash(const Problem& p) {
  // Multiply-xorshift over the fields (splitmix64's finaliser): a table index, not a stable identity.
  uint64_t h = 0x9e3779b97f4a7c15u;
  auto mix = [&h](uint64_t v) {
    h = (h ^ v) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 29;
  };
  mix(uint64_t(p.op) | uint64_t(p.a) << 8 | uint64_t(p.b) << 16 | uint64_t(p.out) << 24 |
      uint64_t(p.d) << 32 | uint64_t(p.layout) << 40 | uint64_t(p.prepack_b) << 48 |
      uint64_t(p.epilogue.count) << 56);
  for (int64_t v : {p.m, p.n, p.k, p.batch, p.lda, p.ldb, p.ldc, p.stride_a, p.stride_b, p.stride_c}) {
    mix(static_cast<uint64_t>(v));
  }
  // Adding zero makes -0 and 0, which are equal, one.
  mix(std::bit_cast<uint64_t>(p.alpha + 0.0));
  mix(std::bit_cast<uint64_t>(p.beta + 0.0));
  for (const EpilogueStep& step : p.epilogue) {
    mix(uint64_t(step.kind));
    mix(uint64_t(std::bit_cast<uint32_t>(step.params[0] + 0.0f)) << 32 |
        std::bit_cast<uint32_t>(step.params[1] + 0.0f));
  }
  return h;
}

}  // namespace tessera
