#include "hlir/attributes.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace cinn_like::hlir {
namespace {

// Shortest form that reads back as the same double and as no integer.
std::string PrintFloat(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), v).ptr;
  std::string s(buffer, end);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string Quote(const std::string& text) {
  std::string s = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    if (c == '\n') {
      s += "\\n";
    } else {
      s += c;
    }
  }
  return s + "\"";
}

bool AllConst(const Dims& dims) {
  for (const Dim& d : dims) {
    if (!d.IsConst()) return false;
  }
  return true;
}

// The same number as an integer where it is one.
Attr CanonicalNumber(double v) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  const bool integral = std::abs(v) < kExact && v == std::floor(v) && !(v == 0 && std::signbit(v));
  if (integral) return Dim(static_cast<int64_t>(v));
  return v;
}

StatusOr<Dims> ParseList(Lexer* lexer) {
  RETURN_IF_ERROR(lexer->Expect("["));
  Dims dims;
  if (lexer->Eat("]")) return dims;
  do {
    ASSIGN_OR_RETURN(Dim d, ParseDim(lexer));
    dims.push_back(std::move(d));
  } while (lexer->Eat(","));
  RETURN_IF_ERROR(lexer->Expect("]"));
  return dims;
}

}  // namespace

std::string_view DescribeAttrType(AttrType t) {
  switch (t) {
    case AttrType::kInt:
      return "an integer";
    case AttrType::kDim:
      return "a dimension";
    case AttrType::kNumber:
      return "a number";
    case AttrType::kFloat:
      return "a float";
    case AttrType::kBool:
      return "true or false";
    case AttrType::kString:
      return "a string";
    case AttrType::kDType:
      return "a dtype";
    case AttrType::kInts:
      return "a list of integers";
    case AttrType::kDims:
      return "a list of dimensions";
  }
  return "";
}

std::string ToString(const Attr& attr) {
  struct Printer {
    std::string operator()(const Dim& d) const { return d.ToString(); }
    std::string operator()(double v) const { return PrintFloat(v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(const std::string& v) const { return Quote(v); }
    std::string operator()(DType v) const { return std::string(Name(v)); }
    std::string operator()(const Dims& v) const { return ToString(v); }
  };
  return std::visit(Printer(), attr);
}

const Attr* Attrs::Find(const std::string& name) const {
  const auto it = values_->find(name);
  return it == values_->end() ? nullptr : &it->second;
}

bool operator==(const Attrs& a, const Attrs& b) {
  // By text: a NaN equals itself and -0.0 differs from 0.0.
  return std::equal(
      a.values_->begin(), a.values_->end(), b.values_->begin(), b.values_->end(), [](const auto& x, const auto& y) {
        return x.first == y.first && x.second.index() == y.second.index() && ToString(x.second) == ToString(y.second);
      });
}

int64_t Attrs::Int(const std::string& name) const { return *std::get<Dim>(values_->at(name)).AsConst(); }
Dim Attrs::AsDim(const std::string& name) const { return std::get<Dim>(values_->at(name)); }
double Attrs::Float(const std::string& name) const { return std::get<double>(values_->at(name)); }
const Attr& Attrs::Number(const std::string& name) const { return values_->at(name); }
bool Attrs::Bool(const std::string& name) const { return std::get<bool>(values_->at(name)); }
const std::string& Attrs::String(const std::string& name) const { return std::get<std::string>(values_->at(name)); }
DType Attrs::AsDType(const std::string& name) const { return std::get<DType>(values_->at(name)); }
std::vector<int64_t> Attrs::Ints(const std::string& name) const {
  std::vector<int64_t> ints;
  for (const Dim& d : AsDims(name)) ints.push_back(*d.AsConst());
  return ints;
}
const Dims& Attrs::AsDims(const std::string& name) const { return std::get<Dims>(values_->at(name)); }

StatusOr<Attr> CoerceAttr(const AttrSpec& spec, Attr value) {
  const Dim* dim = std::get_if<Dim>(&value);
  const double* number = std::get_if<double>(&value);
  const Dims* dims = std::get_if<Dims>(&value);
  const std::string* text = std::get_if<std::string>(&value);
  bool fits = false;
  switch (spec.type) {
    case AttrType::kInt:
      fits = dim && dim->IsConst();
      break;
    case AttrType::kDim:
      fits = dim;
      break;
    case AttrType::kNumber:
      if (number) return CanonicalNumber(*number);
      fits = dim;
      break;
    case AttrType::kFloat:
      if (dim && dim->IsConst()) return Attr(static_cast<double>(*dim->AsConst()));
      fits = number;
      break;
    case AttrType::kBool:
      fits = std::holds_alternative<bool>(value);
      break;
    case AttrType::kString:
      fits = text;
      break;
    case AttrType::kDType:
      fits = std::holds_alternative<DType>(value);
      break;
    case AttrType::kInts:
      fits = dims && AllConst(*dims);
      break;
    case AttrType::kDims:
      fits = dims;
      break;
  }
  if (!fits) {
    return InvalidArgument("attribute '", spec.name, "': expected ", DescribeAttrType(spec.type), ", got ",
                           ToString(value));
  }
  if (!spec.choices.empty()) {
    std::string all;
    for (const std::string& c : spec.choices) {
      if (c == *text) return value;
      all += Cat(all.empty() ? "\"" : " or \"", c, "\"");
    }
    return InvalidArgument("attribute '", spec.name, "': expected ", all, ", got ", ToString(value));
  }
  return value;
}

StatusOr<Attr> ParseAttr(const AttrSpec& spec, Lexer* lexer) {
  const Token at = lexer->Peek();
  auto wrong = [&] { return lexer->Error(Cat("attribute '", spec.name, "': expected ", DescribeAttrType(spec.type))); };
  Attr value = Dim(0);
  switch (spec.type) {
    case AttrType::kInt:
    case AttrType::kDim: {
      if (at.kind != TokenKind::kIdent && at.kind != TokenKind::kInt && !lexer->Is("-") && !lexer->Is("("))
        return wrong();
      ASSIGN_OR_RETURN(value, ParseDim(lexer));
      break;
    }
    case AttrType::kNumber:
    case AttrType::kFloat: {
      if (spec.type == AttrType::kNumber && (lexer->Is("true") || lexer->Is("false"))) {
        value = Dim(lexer->Take().text == "true");
        break;
      }
      Lexer ahead = *lexer;
      const bool negative = ahead.Eat("-");
      if (ahead.Peek().kind == TokenKind::kInt) {
        ASSIGN_OR_RETURN(const Dim d, ParseDim(lexer));
        value = negative && d == Dim(0) ? Attr(-0.0) : Attr(d);
        break;
      }
      const bool literal = ahead.Peek().kind == TokenKind::kFloat || ahead.Is("inf") || ahead.Is("nan");
      if (!literal && spec.type == AttrType::kNumber && (ahead.Is("(") || ahead.Peek().kind == TokenKind::kIdent)) {
        ASSIGN_OR_RETURN(value, ParseDim(lexer));
        break;
      }
      if (!literal) return wrong();
      ASSIGN_OR_RETURN(value, lexer->Number("a number"));
      break;
    }
    case AttrType::kBool:
      if (!lexer->Is("true") && !lexer->Is("false")) return wrong();
      value = lexer->Take().text == "true";
      break;
    case AttrType::kString:
      if (at.kind != TokenKind::kString) return wrong();
      value = lexer->Take().text;
      break;
    case AttrType::kDType: {
      const std::optional<DType> t = ParseDType(at.text);
      if (at.kind != TokenKind::kIdent || !t)
        return lexer->Error(Cat("attribute '", spec.name, "': expected a dtype (", AllDTypeNames(), ")"));
      lexer->Take();
      value = *t;
      break;
    }
    case AttrType::kInts:
    case AttrType::kDims: {
      if (!lexer->Is("[")) return wrong();
      ASSIGN_OR_RETURN(value, ParseList(lexer));
      break;
    }
  }
  StatusOr<Attr> coerced = CoerceAttr(spec, std::move(value));
  if (!coerced.ok()) return InvalidArgument("line ", at.line, ", column ", at.column, ": ", Message(coerced.status()));
  return coerced;
}

}  // namespace cinn_like::hlir
