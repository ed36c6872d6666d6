#include "tessera/problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "base/text.h"
#include "core/bad_value.h"
#include "core/known_words.h"
#include "tessera/error.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, kOpCount> kOps = {"gemm", "conv_fwd", "conv_bwd_data",
                                                         "conv_bwd_weight"};
constexpr std::array<std::string_view, kLayoutCount> kLayouts = {"rcr", "rrr",           "crr",
                                                                 "ccr", "channels_last", "channels_first"};

// dtype=A or dtype=AxB.
void parse_types(Problem& p, std::string_view text) {
  auto type = [&](std::string_view word) {
    auto t = parse_dtype(word);
    if (!t) bad_value("unknown dtype '" + std::string(word) + "'", "one of " + dtype_names());
    return *t;
  };
  size_t x = text.find('x');
  p.a = type(text.substr(0, x));
  p.b = x == text.npos ? p.a : type(text.substr(x + 1));
}

DType parse_one_type(std::string_view text) {
  auto t = parse_dtype(text);
  if (!t) bad_value("unknown dtype '" + std::string(text) + "'", "one of " + dtype_names());
  return *t;
}

// D tensors follow C where C is a floating type; an integer C takes them in f32.
DType default_d(const Problem& p) { return info(p.out).is_float ? p.out : DType::f32; }

void parse_layout(Problem& p, std::string_view text) {
  for (size_t i = 0; i < kLayouts.size(); ++i) {
    if (text == kLayouts[i]) return void(p.layout = static_cast<Layout>(i));
  }
  bad_value("unknown layout '" + std::string(text) + "'", "one of " + layout_names(p.op));
}

int64_t parse_size(std::string_view text) {
  auto v = parse_int(text);
  if (!v) bad_value("not a 64-bit integer");
  return *v;
}

// "56x56": one number for each spatial axis, which `in` counts, or one for all.
void parse_axes(ConvShape& c, std::string_view text, std::array<ConvShape::Axes*, 2> lo_hi) {
  std::vector<std::string_view> pieces = split(text, 'x');
  if (lo_hi[0] == &c.in) {
    if (pieces.size() > ConvShape::kAxes)
      bad_value("more than " + std::to_string(ConvShape::kAxes) + " spatial axes");
    c.dims = static_cast<int>(pieces.size());
  }
  if (pieces.size() == 1 && c.dims > 1) pieces.resize(static_cast<size_t>(c.dims), pieces[0]);
  if (static_cast<int>(pieces.size()) != c.dims) {
    bad_value(std::to_string(pieces.size()) + " axes, and 'in' has " + std::to_string(c.dims));
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t axis = ConvShape::kAxes - pieces.size() + i, colon = pieces[i].find(':');
    if (colon != text.npos && !lo_hi[1]) bad_value("':' is for padding alone");
    (*lo_hi[0])[axis] = parse_size(pieces[i].substr(0, colon));
    if (lo_hi[1]) {
      (*lo_hi[1])[axis] = colon == text.npos ? (*lo_hi[0])[axis] : parse_size(pieces[i].substr(colon + 1));
    }
  }
}

std::string print_axes(const ConvShape& c, const ConvShape::Axes& lo, const ConvShape::Axes& hi) {
  std::string text;
  for (size_t axis = static_cast<size_t>(ConvShape::kAxes - c.dims); axis < ConvShape::kAxes; ++axis) {
    if (!text.empty()) text += 'x';
    text += std::to_string(lo[axis]);
    if (hi[axis] != lo[axis]) text += ':' + std::to_string(hi[axis]);
  }
  return text;
}

// Which operations a field is for.
enum Ops : unsigned { kGemm = 1, kConv = 2, kAll = 3 };

// A field of the text form. print returns "" for the default, which is then left out.
struct Field {
  std::string_view key;
  unsigned ops;
  bool required;
  void (*parse)(Problem&, std::string_view);
  std::string (*print)(const Problem&);

  bool is_for(Op op) const { return ops & (is_conv(op) ? kConv : kGemm); }
};

template <int64_t Problem::*member, int64_t default_value>
Field size_field(std::string_view key) {
  return {key, kGemm, default_value == 0,
          [](Problem& p, std::string_view text) {
            p.*member = parse_size(text);
            if (p.*member < 0) bad_value("must not be negative");
          },
          [](const Problem& p) { return p.*member == default_value ? "" : std::to_string(p.*member); }};
}

template <int64_t Problem::*member>
Field gemm_extent(std::string_view key) {
  return {key, kGemm, true, [](Problem& p, std::string_view t) { p.*member = parse_size(t); },
          [](const Problem& p) { return std::to_string(p.*member); }};
}

template <int64_t ConvShape::*member>
Field conv_extent(std::string_view key, bool required) {
  return {key, kConv, required, [](Problem& p, std::string_view t) { p.conv.*member = parse_size(t); },
          [](const Problem& p) { return std::to_string(p.conv.*member); }};
}

template <ConvShape::Axes ConvShape::*member>
Field axes_field(std::string_view key, bool required) {
  return {key, kConv, required,
          [](Problem& p, std::string_view t) {
            parse_axes(p.conv, t, {&(p.conv.*member), nullptr});
          },
          [](const Problem& p) { return print_axes(p.conv, p.conv.*member, p.conv.*member); }};
}

template <double Problem::*member>
Field factor_field(std::string_view key, double default_value) {
  static const double left_out = default_value;
  return {key, kAll, false,
          [](Problem& p, std::string_view t) {
            auto v = parse_number(t);
            if (!v) bad_value("not a finite number");
            p.*member = *v;
          },
          [](const Problem& p) { return p.*member == left_out ? "" : number_text(p.*member); }};
}

// In the order they print. What gives another field its default comes before it: `in` before the other axes,
// dtype before out and d.
const std::vector<Field>& fields() {
  static const auto& table = *new std::vector<Field>{
      // for threads while the process ends
      gemm_extent<&Problem::m>("m"),
      gemm_extent<&Problem::n>("n"),
      gemm_extent<&Problem::k>("k"),
      conv_extent<&ConvShape::n>("n", false),
      conv_extent<&ConvShape::g>("g", false),
      conv_extent<&ConvShape::c>("c", true),
      conv_extent<&ConvShape::k>("k", true),
      axes_field<&ConvShape::in>("in", true),
      axes_field<&ConvShape::filter>("filter", true),
      axes_field<&ConvShape::stride>("stride", false),
      {"pad", kConv, false,
       [](Problem& p, std::string_view t) {
         parse_axes(p.conv, t, {&p.conv.pad_lo, &p.conv.pad_hi});
       },
       [](const Problem& p) { return print_axes(p.conv, p.conv.pad_lo, p.conv.pad_hi); }},
      axes_field<&ConvShape::dilation>("dilation", false),
      {"dtype", kAll, true, parse_types, types_text},
      {"layout", kAll, false, parse_layout,
       [](const Problem& p) {
         return p.layout == Layout::channels_last ? "" : std::string(to_string(p.layout));
       }},
      size_field<&Problem::batch, 1>("batch"),
      {"epilogue", kAll, false,
       [](Problem& p, std::string_view t) {
         std::string why;
         auto e = parse_epilogue(t, &why);
         if (!e) bad_value(why);
         p.epilogue = *e;
       },
       [](const Problem& p) { return p.epilogue.empty() ? std::string() : to_string(p.epilogue); }},
      {"out", kAll, false, [](Problem& p, std::string_view t) { p.out = parse_one_type(t); },
       [](const Problem& p) { return p.out == info(p.a).default_out ? "" : std::string(to_string(p.out)); }},
      {"d", kAll, false, [](Problem& p, std::string_view t) { p.d = parse_one_type(t); },
       [](const Problem& p) { return p.d == default_d(p) ? "" : std::string(to_string(p.d)); }},
      {"prepack", kAll, false,
       [](Problem& p, std::string_view t) {
         if (t != "b") bad_value("only B can be prepacked", "prepack=b, or leave it out");
         p.prepack_b = true;
       },
       [](const Problem& p) { return std::string(p.prepack_b ? "b" : ""); }},
      {"bias_grad", kConv, false,
       [](Problem& p, std::string_view t) {
         if (t != "f32") bad_value("sums of the gradient are f32", "bias_grad=f32, or leave it out");
         p.bias_grad = true;
       },
       [](const Problem& p) { return std::string(p.bias_grad ? "f32" : ""); }},
      size_field<&Problem::lda, Problem::kPacked>("lda"),
      size_field<&Problem::ldb, Problem::kPacked>("ldb"),
      size_field<&Problem::ldc, Problem::kPacked>("ldc"),
      size_field<&Problem::stride_a, Problem::kPacked>("stride_a"),
      size_field<&Problem::stride_b, Problem::kPacked>("stride_b"),
      size_field<&Problem::stride_c, Problem::kPacked>("stride_c"),
      factor_field<&Problem::alpha>("alpha", 1),
      factor_field<&Problem::beta>("beta", 0),
  };
  return table;
}

}  // namespace

std::string types_text(DType a, DType b) {
  std::string text(to_string(a));
  if (b != a) text += "x" + std::string(to_string(b));
  return text;
}
std::string types_text(const Problem& p) { return types_text(p.a, p.b); }

Op parse_op(std::string_view word) {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (word == kOps[i]) return static_cast<Op>(i);
  }
  bad_value("unknown operation '" + std::string(word) + "'", "one of " + join(kOps, " "));
}

bool is_op(std::string_view word) { return std::find(kOps.begin(), kOps.end(), word) != kOps.end(); }

std::vector<std::string> problem_words() {
  std::vector<std::string> words(kOps.begin(), kOps.end());
  for (const Field& f : fields()) {
    std::string word = std::string(f.key) + '=';
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(std::move(word));
  }
  return words;
}

std::string layout_names() { return join(kLayouts, " "); }

std::string layout_names(Op op) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < kLayouts.size(); ++i) {
    if (is_conv(op) == is_conv(static_cast<Layout>(i))) names.push_back(kLayouts[i]);
  }
  return join(names, " ");
}

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

Problem Problem::parse(std::string_view text) {
  Problem p;
  auto words = split_words(text);
  if (words.empty()) bad_value("empty problem", "for example: gemm m=512 n=512 k=512 dtype=f32");
  p.op = parse_op(words[0]);
  if (is_conv(p.op)) p.layout = Layout::channels_last;
  std::vector<std::string_view> values(fields().size());
  for (size_t i = 1; i < words.size(); ++i) {
    size_t equals = words[i].find('=');
    std::string_view key = words[i].substr(0, equals);
    size_t f = 0;
    while (f < fields().size() && (fields()[f].key != key || !fields()[f].is_for(p.op))) ++f;
    if (f == fields().size() || equals == words[i].npos) {
      std::vector<std::string> keys;
      for (const Field& field : fields()) {
        const std::string start = std::string(field.key) + '=';
        const bool given = std::ranges::any_of(words, [&](auto word) { return word.starts_with(start); });
        if (field.is_for(p.op) && !given) keys.emplace_back(field.key);
      }
      const std::string hint = typing_hint(key, keys, "=");
      bad_value("unknown word '" + std::string(words[i]) + "' in the problem",
                hint.empty() ? "fields left are " + join(keys, " ") : hint);
    }
    if (values[f].data()) bad_value("'" + std::string(key) + "' is given twice");
    values[f] = words[i].substr(equals + 1);
    if (values[f].empty()) bad_value("'" + std::string(key) + "' has no value");
  }
  for (size_t f = 0; f < fields().size(); ++f) {
    const Field& field = fields()[f];
    if (field.key == "out") p.out = info(p.a).default_out;
    if (field.key == "d") p.d = default_d(p);
    if (values[f].data()) {
      try {
        field.parse(p, values[f]);
      } catch (const Error& e) { throw e.on(std::string(field.key) + '=' + std::string(values[f])); }
    } else if (field.required && field.is_for(p.op)) {
      bad_value("the problem has no '" + std::string(field.key) + "'",
                "add " + std::string(field.key) + "=...");
    }
  }
  p.validate();
  return p;
}

std::string to_string(const Problem& p) {
  if (const std::string why = unknown_word(p); !why.empty()) return "a problem whose " + why;
  std::string text(to_string(p.op));
  for (const Field& field : fields()) {
    if (!field.is_for(p.op)) continue;
    std::string value = field.print(p);
    if (!value.empty()) text += ' ' + std::string(field.key) + '=' + value;
  }
  return text;
}

namespace {

__extension__ typedef unsigned __int128 Wide;

// A sum of products of two fields each, every field with a key of its own (the NH family of hash functions,
// RFC 4418): none waits for another.
class Sum {
 public:
  void two(uint64_t x, uint64_t y) {
    const Wide product = Wide{x ^ next()} * (y ^ next());
    sum_ += static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  void two(int64_t x, int64_t y) { two(static_cast<uint64_t>(x), static_cast<uint64_t>(y)); }
  // Adding zero makes -0 and 0, which are equal, one.
  void two(double x, double y) { two(std::bit_cast<uint64_t>(x + 0.0), std::bit_cast<uint64_t>(y + 0.0)); }
  uint64_t mixed() const {
    const uint64_t h = (sum_ ^ sum_ >> 32) * kStep;
    return h ^ h >> 29;
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;  // 2^64 divided by the golden ratio
  uint64_t next() { return key_ += kStep; }
  uint64_t key_ = 0, sum_ = 0;
};

}  // namespace

// The same in every process that this version of the library runs in, and no longer.
uint64_t hash(const Problem& p) {
  Sum h;
  h.two(uint64_t(p.op) | uint64_t(p.a) << 8 | uint64_t(p.b) << 16 | uint64_t(p.out) << 24 |
            uint64_t(p.d) << 32 | uint64_t(p.layout) << 40 | uint64_t(p.prepack_b) << 48 |
            uint64_t(p.bias_grad) << 49,
        static_cast<uint64_t>(p.epilogue.count));
  h.two(p.m, p.n);
  h.two(p.k, p.batch);
  h.two(p.lda, p.ldb);
  h.two(p.ldc, p.stride_a);
  h.two(p.stride_b, p.stride_c);
  h.two(p.alpha, p.beta);
  if (is_conv(p.op)) {
    const ConvShape& c = p.conv;
    h.two(int64_t{c.dims}, c.n);
    h.two(c.g, c.c);
    h.two(c.k, c.in[0]);
    h.two(c.in[1], c.in[2]);
    for (const auto& [x, y] : {std::pair(&c.filter, &c.stride), std::pair(&c.dilation, &c.pad_lo)}) {
      for (size_t i = 0; i < x->size(); ++i) h.two((*x)[i], (*y)[i]);
    }
    h.two(c.pad_hi[0], c.pad_hi[1]);
    h.two(c.pad_hi[2], int64_t{0});
  }
  for (const EpilogueStep& step : p.epilogue.known()) {
    const auto bits = [](float param) -> uint64_t { return std::bit_cast<uint32_t>(param + 0.0F); };
    h.two(uint64_t(step.kind), bits(step.params[0]) << 32 | bits(step.params[1]));
  }
  return h.mixed();
}

}  // namespace tessera
