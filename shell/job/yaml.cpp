// SPDX-License-Identifier: Apache-2.0
//
// Converts YAML to JSON in two steps. The parser's events become a flat list of nodes, in which an alias is one
// more reference to a node; then the list is unrolled into JSON, and only there do aliases cost memory. yaml-cpp
// reports errors by exceptions, which end in read_nodes().
#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>
#include <unordered_map>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "job/jobspec.hpp"
#include "job/yaml_scalar.hpp"

namespace nacre::job {
namespace {

constexpr std::size_t kValueWeight = 64;  // cost of a value besides its text, towards kMaxYamlWeight

Error at(const YAML::Mark& mark, std::string_view why) {
  return invalid(fmt::format("YAML: line {}, column {}: {}", mark.line + 1, mark.column + 1, why));
}

// ---- events to nodes -------------------------------------------------------

struct YamlNode {
  enum class Kind { scalar, sequence, map };
  Kind kind = Kind::scalar;
  YAML::Mark mark;
  Json value;                         // of a scalar
  std::string text;                   // the scalar's text, for a key
  std::vector<std::size_t> children;  // nodes; of a map: key, value, key, value...
  bool open = false;                  // its end has not come yet
};

// A handler can stop the parser only by an exception; it throws the parser's own.
class NodeReader : public YAML::EventHandler {
 public:
  explicit NodeReader(std::vector<YamlNode>& nodes) : nodes_(nodes) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) throw YAML::ParserException(mark, "a second document; expected one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, anchor, 0); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto typed = yaml_scalar(tag, value);
    if (!typed) throw YAML::ParserException(mark, typed.error().message);
    YamlNode& node = nodes_[add(mark, anchor, value.size())];
    node.value = *std::move(typed);
    node.text = value;
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    std::size_t target = anchors_[anchor];
    if (nodes_[target].open) throw YAML::ParserException(mark, "an alias to what it stands in");
    weigh(mark, 0);
    attach(target);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Kind::sequence, mark, tag, "tag:yaml.org,2002:seq", anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Kind::map, mark, tag, "tag:yaml.org,2002:map", anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  void weigh(const YAML::Mark& mark, std::size_t text_size) {
    weight_ += kValueWeight + text_size;
    if (weight_ > kMaxYamlWeight) throw YAML::ParserException(mark, "too many values");
  }

  std::size_t add(const YAML::Mark& mark, YAML::anchor_t anchor, std::size_t text_size) {
    weigh(mark, text_size);
    std::size_t index = nodes_.size();
    nodes_.emplace_back().mark = mark;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = index;
    attach(index);
    return index;
  }

  void attach(std::size_t index) {
    if (!open_.empty()) nodes_[open_.back()].children.push_back(index);
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, std::string_view own_tag,
            YAML::anchor_t anchor) {
    if (open_.size() >= static_cast<std::size_t>(kMaxJsonDepth)) {
      throw YAML::ParserException(mark, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    }
    if (tag != "?" && tag != "!" && !tag.empty() && tag != own_tag) {
      throw YAML::ParserException(mark, fmt::format("the tag {} does not go with this value", in_quotes(tag)));
    }
    std::size_t index = add(mark, anchor, 0);
    nodes_[index].kind = kind;
    nodes_[index].open = true;
    open_.push_back(index);
  }

  void close() {
    nodes_[open_.back()].open = false;
    open_.pop_back();
  }

  std::vector<YamlNode>& nodes_;
  std::vector<std::size_t> open_;  // the collections that are open
  std::unordered_map<YAML::anchor_t, std::size_t> anchors_;
  std::size_t weight_ = 0;
  int documents_ = 0;
};

// The first node is the root; none if there is no document.
Result<std::vector<YamlNode>> read_nodes(std::string_view text) {
  std::vector<YamlNode> nodes;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    NodeReader reader(nodes);
    while (parser.HandleNextDocument(reader)) {
    }
  } catch (const YAML::Exception& error) {
    return at(error.mark, error.msg);
  } catch (const std::exception& error) {
    return invalid(fmt::format("YAML: {}", error.what()));
  }
  return nodes;
}

// ---- nodes to JSON ---------------------------------------------------------

class Unroller {
 public:
  explicit Unroller(const std::vector<YamlNode>& nodes) : nodes_(nodes) {}

  Result<Json> value(std::size_t index, int depth = 0) {
    const YamlNode& node = nodes_[index];
    CHECK_OK(weigh(node));
    if (node.kind == YamlNode::Kind::scalar) return node.value;
    if (depth == kMaxJsonDepth) return at(node.mark, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
    return node.kind == YamlNode::Kind::map ? map(node, depth + 1) : sequence(node, depth + 1);
  }

 private:
  Result<void> weigh(const YamlNode& node) {
    weight_ += kValueWeight + node.text.size();
    if (weight_ <= kMaxYamlWeight) return {};
    return at(node.mark, "too many values, aliases counted as what they stand for");
  }

  Result<Json> sequence(const YamlNode& node, int depth) {
    Json out = Json::array();
    for (std::size_t child : node.children) out.push_back(TRY(value(child, depth)));
    return out;
  }

  Result<Json> map(const YamlNode& node, int depth) {
    Json out = Json::object();
    for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
      const YamlNode& key = nodes_[node.children[i]];
      if (key.kind != YamlNode::Kind::scalar || key.value.is_null()) {
        return at(key.mark, "a key must be text, neither null nor a collection");
      }
      if (out.contains(key.text)) return at(key.mark, fmt::format("the key {} is here twice", in_quotes(key.text)));
      CHECK_OK(weigh(key));
      out[key.text] = TRY(value(node.children[i + 1], depth));
    }
    return out;
  }

  const std::vector<YamlNode>& nodes_;
  std::size_t weight_ = 0;
};

// ---- bytes -----------------------------------------------------------------

// The length of the UTF-8 character at the start of `text`; 0 if there is none.
std::size_t character(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char first = byte(0);
  if (first < 0x80) return 1;
  std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // too long a form, a surrogate, or beyond U+10FFFF
  bool bad = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
             (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f);
  return bad ? 0 : size;
}

// yaml-cpp silently replaces what is no UTF-8, and takes the byte 4 for the end of the text: both are errors here.
Result<void> check_bytes(std::string_view text) {
  YAML::Mark mark;
  for (std::size_t i = 0; i < text.size();) {
    auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f) {
      return at(mark, fmt::format("the control character 0x{:02x}", byte));
    }
    std::size_t size = character(text.substr(i));
    if (size == 0) return at(mark, "not UTF-8");
    i += size;
    ++mark.column;
    if (byte == '\n') {
      ++mark.line;
      mark.column = 0;
    }
  }
  return {};
}

}  // namespace

Result<Json> yaml_to_json(std::string_view text) {
  if (text.size() > kMaxYaml) return invalid(fmt::format("YAML of {} bytes; at most {}", text.size(), kMaxYaml));
  CHECK_OK(check_bytes(text));
  std::vector<YamlNode> nodes = TRY(read_nodes(text));
  if (nodes.empty()) return Json();
  return Unroller(nodes).value(0);
}

}  // namespace nacre::job
