#include "tests/translate/cel_model.hpp"

#include "tests/translate/cel_lexer.hpp"
#include "tests/translate/decimal.hpp"

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace drawbridge::oracle {
namespace {

struct Value;
using Values = std::vector<Value>;
/// A place below `device` that is not a value yet: the device, one of its two maps, or one domain
/// of a map.
struct Place {
    std::string path;
    bool operator==(const Place&) const = default;
};

struct Value {
    std::variant<bool, std::int64_t, std::string, Decimal, std::shared_ptr<Values>, Place> held;
};

template <class T>
const T& as(const Value& value, const char* what) {
    if (const auto* held = std::get_if<T>(&value.held)) return *held;
    cel_wrong(std::string("no such overload: ") + what);
}

std::string ascii_case(std::string text, bool upper) {
    for (char& c : text) {
        if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
        if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
}

/// Parses and evaluates in one go. Branches that do not count are parsed with errors held back by
/// `skip_`.
class Evaluator {
public:
    Evaluator(std::string_view text, const ModelDevice& device) : device_(device) {
        CelLexer lexer(text);
        for (CelToken token = lexer.next(); token.kind != CelKind::end; token = lexer.next()) {
            tokens_.push_back(std::move(token));
        }
        tokens_.emplace_back();
    }

    bool run() {
        const auto value = ternary();
        if (peek().kind != CelKind::end)
            cel_wrong("something after the expression: " + peek().text);
        return as<bool>(value, "result");
    }

private:
    const CelToken& peek() const { return tokens_[at_]; }
    bool at(std::string_view sign) const {
        return peek().kind == CelKind::sign && peek().text == sign;
    }
    bool take(std::string_view sign) {
        if (!at(sign)) return false;
        ++at_;
        return true;
    }
    void expect(std::string_view sign) {
        if (!take(sign))
            cel_wrong("'" + std::string(sign) + "' is missing before '" + peek().text + "'");
    }

    /// Parses what follows; evaluates it only if `counts`.
    Value guarded(bool counts, Value (Evaluator::*rule)()) {
        skip_ += counts ? 0 : 1;
        auto value = (this->*rule)();
        skip_ -= counts ? 0 : 1;
        return value;
    }

    Value ternary() {
        if (++depth_ > 200) cel_wrong("nested too deeply");
        auto value = either();
        if (take("?")) {
            const bool condition = skip_ == 0 && as<bool>(value, "condition");
            auto yes = guarded(condition, &Evaluator::ternary);
            expect(":");
            auto no = guarded(!condition, &Evaluator::ternary);
            value = condition ? std::move(yes) : std::move(no);
        }
        --depth_;
        return value;
    }

    Value either() {
        auto value = both();
        while (take("||")) {
            const bool left = skip_ == 0 && as<bool>(value, "||");
            const auto right = guarded(!left, &Evaluator::both);
            value = {left || (skip_ == 0 && as<bool>(right, "||"))};
        }
        return value;
    }

    Value both() {
        auto value = relation();
        while (take("&&")) {
            const bool left = skip_ == 0 && as<bool>(value, "&&");
            const auto right = guarded(left, &Evaluator::relation);
            value = {left && (skip_ > 0 || as<bool>(right, "&&"))};
        }
        return value;
    }

    Value relation() {
        auto left = sum();
        for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
            if (take(sign)) return compare(left, sign, sum());
        }
        if (peek().kind == CelKind::name && peek().text == "in") {
            ++at_;
            return contained(left, sum());
        }
        return left;
    }

    Value sum() {
        auto value = unary();
        while (take("+")) {
            const auto right = unary();
            if (skip_ == 0) value = {as<std::string>(value, "+") + as<std::string>(right, "+")};
        }
        return value;
    }

    Value unary() {
        if (take("!")) {
            const auto value = unary();
            return {skip_ > 0 || !as<bool>(value, "!")};
        }
        if (take("-")) {
            const auto value = unary();
            return {skip_ > 0 ? 0 : -as<std::int64_t>(value, "-")};
        }
        return member();
    }

    Value compare(const Value& left, std::string_view sign, const Value& right) const {
        if (skip_ > 0) return {true};
        if (left.held.index() != right.held.index()) cel_wrong("a comparison of different types");
        if (std::holds_alternative<Place>(left.held)) cel_wrong("a comparison of maps");
        if (std::holds_alternative<std::shared_ptr<Values>>(left.held))
            cel_wrong("a comparison of lists");
        if (sign == "==" || sign == "!=") return {(left.held == right.held) == (sign == "==")};
        if (!std::holds_alternative<std::int64_t>(left.held))
            cel_wrong("an order of something else than numbers");
        const auto one = std::get<std::int64_t>(left.held);
        const auto two = std::get<std::int64_t>(right.held);
        return {sign == "<"    ? one < two
                : sign == ">"  ? one > two
                : sign == "<=" ? one <= two
                               : one >= two};
    }

    Value contained(const Value& left, const Value& right) const {
        if (skip_ > 0) return {true};
        if (const auto* place = std::get_if<Place>(&right.held)) {
            return {knows(place->path, as<std::string>(left, "in"))};
        }
        for (const auto& element : *as<std::shared_ptr<Values>>(right, "in")) {
            if (element.held == left.held) return {true};
        }
        return {false};
    }

    Value member() {
        auto value = primary();
        while (true) {
            if (take(".")) {
                if (peek().kind != CelKind::name) cel_wrong("a name is missing after '.'");
                const auto name = tokens_[at_++].text;
                value = at("(") ? method(value, name) : step(value, name);
            } else if (take("[")) {
                const auto key = ternary();
                expect("]");
                value = skip_ > 0 ? Value{true} : step(value, as<std::string>(key, "[]"));
            } else {
                return value;
            }
        }
    }

    Value primary() {
        const auto token = peek();
        if (take("(")) {
            auto value = ternary();
            expect(")");
            return value;
        }
        if (take("[")) return list();
        if (token.kind == CelKind::end || token.kind == CelKind::sign)
            cel_wrong("an operand is missing before '" + token.text + "'");
        ++at_;
        if (token.kind == CelKind::text) return {token.text};
        if (token.kind == CelKind::number) {
            if (token.text.size() > 18) cel_wrong("a number out of range");
            return {static_cast<std::int64_t>(std::stoll(token.text))};
        }
        if (token.text == "true" || token.text == "false") return {token.text == "true"};
        for (auto bound = variables_.rbegin(); bound != variables_.rend(); ++bound) {
            if (bound->first == token.text) return bound->second;
        }
        if (token.text == "device") return {Place{"device"}};
        if (token.text == "quantity") return quantity();
        if (token.text == "cel") return bind();
        cel_wrong("an undeclared name: " + token.text);
    }

    Value list() {
        auto values = std::make_shared<Values>();
        while (!take("]")) {
            values->push_back(ternary());
            if (!at("]")) expect(",");
        }
        return {std::move(values)};
    }

    Value quantity() {
        expect("(");
        const auto text = ternary();
        expect(")");
        if (skip_ > 0) return {Decimal{}};
        const auto number = read_quantity(as<std::string>(text, "quantity"));
        if (!number) cel_wrong("no quantity");
        return {*number};
    }

    /// cel.bind(name, value, expression)
    Value bind() {
        if (!take(".") || peek().text != "bind") cel_wrong("an unknown member of cel");
        ++at_;
        expect("(");
        const auto name = tokens_[at_++].text;
        expect(",");
        auto bound = ternary();
        expect(",");
        variables_.emplace_back(name, std::move(bound));
        auto value = ternary();
        variables_.pop_back();
        expect(")");
        return value;
    }

    [[nodiscard]] bool knows(const std::string& path, const std::string& key) const {
        if (path == "device/attributes" || path == "device/capacity") return key == device_.driver;
        if (path == "device/attributes/own") return device_.attributes.contains(key);
        if (path == "device/capacity/own") return device_.capacity.contains(key);
        if (path.ends_with("/foreign")) return false;
        cel_wrong("'in' on something else than a map");
    }

    /// One step into `device`: an unknown domain is an empty map, an unknown key an error
    /// (dra.md 1.7).
    Value step(const Value& value, const std::string& key) const {
        if (skip_ > 0) return {true};
        const auto& path = as<Place>(value, "member").path;
        if (path == "device") {
            if (key == "driver") return {device_.driver};
            if (key == "allowMultipleAllocations") return {true};
            if (key == "attributes" || key == "capacity") return {Place{path + "/" + key}};
            cel_wrong("device has no " + key);
        }
        if (path == "device/attributes" || path == "device/capacity") {
            return {Place{path + (key == device_.driver ? "/own" : "/foreign")}};
        }
        if (!knows(path, key)) cel_wrong("no such key: " + key);
        if (path == "device/capacity/own") return {decimal(device_.capacity.at(key))};
        const auto& held = device_.attributes.at(key);
        if (const auto* text = std::get_if<std::string>(&held)) return {*text};
        return {std::get<std::int64_t>(held)};
    }

    Value method(const Value& value, const std::string& name) {
        expect("(");
        if (name == "exists" || name == "all") return quantified(value, name == "exists");
        Values arguments;
        while (!take(")")) {
            arguments.push_back(ternary());
            if (!at(")")) expect(",");
        }
        if (skip_ > 0) return {true};
        if (const auto* number = std::get_if<Decimal>(&value.held))
            return of_quantity(*number, name, arguments);
        return of_text(as<std::string>(value, "method"), name, arguments);
    }

    static Value of_quantity(const Decimal& number, const std::string& name,
                             const Values& arguments) {
        if (arguments.size() != 1) cel_wrong("arguments of " + name);
        const auto& other = as<Decimal>(arguments[0], "quantity");
        if (name == "compareTo")
            return {std::int64_t{number < other ? -1 : number > other ? 1 : 0}};
        if (name == "isGreaterThan") return {number > other};
        if (name == "isLessThan") return {number < other};
        cel_wrong("quantities have no " + name);
    }

    static Value of_text(const std::string& text, const std::string& name,
                         const Values& arguments) {
        if (name == "upperAscii" || name == "lowerAscii") {
            if (!arguments.empty()) cel_wrong("arguments of " + name);
            return {ascii_case(text, name == "upperAscii")};
        }
        if (arguments.size() != 1) cel_wrong("arguments of " + name);
        const auto& part = as<std::string>(arguments[0], "text");
        if (name == "contains") return {text.find(part) != text.npos};
        if (name == "startsWith") return {text.starts_with(part)};
        if (name == "endsWith") return {text.ends_with(part)};
        cel_wrong("texts have no " + name);
    }

    Value quantified(const Value& value, bool exists) {
        const auto name = tokens_[at_++].text;
        expect(",");
        const auto body = at_;
        static const auto nothing = std::make_shared<Values>();
        const auto elements = skip_ > 0 ? nothing : as<std::shared_ptr<Values>>(value, "exists");
        bool found = false;
        for (const auto& element : *elements) {
            at_ = body;
            variables_.emplace_back(name, element);
            found = as<bool>(ternary(), "exists") == exists || found;
            variables_.pop_back();
        }
        if (elements->empty()) {
            variables_.emplace_back(name, Value{std::string()});
            ++skip_;
            (void)ternary();
            --skip_;
            variables_.pop_back();
        }
        expect(")");
        return {found == exists};
    }

    const ModelDevice& device_;
    std::vector<CelToken> tokens_;
    std::vector<std::pair<std::string, Value>> variables_;
    std::size_t at_ = 0;
    int skip_ = 0;
    int depth_ = 0;
};

}  // namespace

CelOutcome evaluate_cel(std::string_view expression, const ModelDevice& device) {
    try {
        return {Evaluator(expression, device).run(), {}};
    } catch (const std::runtime_error& error) {
        return {std::nullopt, error.what()};
    }
}

bool is_literal_of(std::string_view text, std::string_view meaning) {
    try {
        CelLexer lexer(text);
        const auto token = lexer.next();
        return token.kind == CelKind::text && token.text == meaning &&
               lexer.next().kind == CelKind::end;
    } catch (const std::runtime_error&) {
        return false;
    }
}

}  // namespace drawbridge::oracle
