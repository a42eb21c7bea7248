#include "experiment/config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/utf8.h"

namespace psgd {
namespace {

YamlMark FromLibrary(const YAML::Mark& mark) {
  return {std::max(mark.line, 0), std::max(mark.column, 0)};
}

// Builds the tree from the library's events. The library cannot be stopped midway, so events after
// the first error are ignored. The size of the text bounds their number.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const YamlSource& source) : source_(source) {}

  const absl::Status& status() const { return status_; }
  // The innermost list or map that is not complete.
  const YamlNode* innermost() const { return open_.empty() ? nullptr : &tree_.nodes[open_.back()]; }
  YamlTree Take() {
    if (tree_.nodes.empty()) tree_.nodes.emplace_back();
    return std::move(tree_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) {
      Fail(mark,
           "a second YAML document starts here; keep one, or look for a stray bracket or "
           "\"---\" before this line");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(YamlNode::kNull, mark, anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!CheckTag(mark, tag) || !Add(YamlNode::kScalar, mark, anchor)) return;
    tree_.nodes.back().quoted = tag == "!";
    tree_.nodes.back().text = value;
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (!status_.ok()) return;
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) return Fail(mark, "an alias to nothing");
    if (std::find(open_.begin(), open_.end(), target->second) != open_.end()) {
      return Fail(mark, "an alias to what contains it");
    }
    Attach(target->second);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (CheckTag(mark, tag)) Open(YamlNode::kList, mark, anchor);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    if (CheckTag(mark, tag)) Open(YamlNode::kMap, mark, anchor);
  }
  void OnMapEnd() override { Close(); }

 private:
  void Fail(const YAML::Mark& mark, absl::string_view message) {
    if (status_.ok()) status_ = source_.ErrorAt(FromLibrary(mark), message);
  }

  // The library passes "?" for a plain node and "!" for a quoted node.
  bool CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return true;
    Fail(mark, absl::StrCat("YAML tags are not used here; leave out ", tag));
    return false;
  }

  bool Add(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (!status_.ok()) return false;
    if (tree_.nodes.size() >= kMaxYamlNodes) {
      Fail(mark, absl::StrCat("more than ", kMaxYamlNodes, " values; is this the right file?"));
      return false;
    }
    const uint32_t index = static_cast<uint32_t>(tree_.nodes.size());
    tree_.nodes.emplace_back();
    tree_.nodes.back().kind = kind;
    tree_.nodes.back().mark = FromLibrary(mark);
    if (anchor != YAML::NullAnchor) anchors_[anchor] = index;
    Attach(index);
    return true;
  }

  void Attach(uint32_t index) {
    if (!open_.empty()) tree_.nodes[open_.back()].children.push_back(index);
  }

  void Open(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (!Add(kind, mark, anchor)) return;
    open_.push_back(static_cast<uint32_t>(tree_.nodes.size() - 1));
    if (open_.size() > kMaxYamlDepth) {
      Fail(mark, absl::StrCat("nested more than ", kMaxYamlDepth, " levels deep"));
    }
  }

  void Close() {
    if (status_.ok()) open_.pop_back();
  }

  const YamlSource& source_;
  absl::Status status_;
  YamlTree tree_;
  std::vector<uint32_t> open_;  // incomplete lists and maps, outermost first
  std::map<YAML::anchor_t, uint32_t> anchors_;
  int documents_ = 0;
};

// The library takes byte 4 for the end of the file and guesses encodings from zeros, so it gets
// only text.
absl::Status CheckText(const YamlSource& source) {
  if (source.text.size() > kMaxYamlBytes) {
    return source.ErrorAt(
        {}, absl::StrCat("larger than ", kMaxYamlBytes, " bytes; is this the right file?"));
  }
  const size_t bad = FindNonText(source.text);
  if (bad == absl::string_view::npos) return absl::OkStatus();
  const auto at = source.text.begin() + static_cast<std::ptrdiff_t>(bad);
  const int line = static_cast<int>(std::count(source.text.begin(), at, '\n'));
  const size_t start = line == 0 ? 0 : source.text.rfind('\n', bad) + 1;
  return source.ErrorAt(
      {line, static_cast<int>(bad - start)},
      absl::StrCat("byte 0x", absl::Hex(static_cast<uint8_t>(*at), absl::kZeroPad2),
                   " does not belong in UTF-8 text; is this a YAML file?"));
}

absl::string_view LineOf(absl::string_view text, int line) {
  for (; line > 0; --line) {
    const size_t end = text.find('\n');
    if (end == text.npos) return "";
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

// Turns a misleading message of the library into one that helps the reader find the place.
absl::Status Explain(const YamlSource& source, const YAML::Exception& error,
                     const YamlNode* innermost) {
  YamlMark mark = FromLibrary(error.mark);
  std::string message = error.msg;
  const absl::string_view line = LineOf(source.text, mark.line);
  const absl::string_view indentation = line.substr(0, line.find_first_not_of(" \t"));
  if (innermost != nullptr &&
      (message == YAML::ErrorMsg::END_OF_MAP_FLOW || message == YAML::ErrorMsg::END_OF_SEQ_FLOW)) {
    mark = innermost->mark;
    message =
        innermost->kind == YamlNode::kMap ? "this { is never closed" : "this [ is never closed";
  } else if (indentation.find('\t') != line.npos) {
    mark.byte = static_cast<int>(indentation.find('\t'));
    message = "a tab in the indentation; use spaces";
  }
  return source.ErrorAt(mark, absl::StrCat("not valid YAML: ", message));
}

}  // namespace

absl::Status YamlSource::ErrorAt(YamlMark mark, absl::string_view message) const {
  if (!with_position) return InvalidArgumentError(name, ": ", message);
  const absl::string_view before = LineOf(text, mark.line).substr(0, mark.byte);
  // Bytes 10xxxxxx continue a character.
  const auto continued = std::ranges::count_if(before, [](char c) { return (c & 0xC0) == 0x80; });
  return InvalidArgumentError(name, ":", mark.line + 1, ":", mark.byte + 1 - continued, ": ",
                              message);
}

absl::StatusOr<YamlTree> ParseYaml(const YamlSource& source) {
  PSGD_RETURN_IF_ERROR(CheckText(source));
  TreeBuilder builder(source);
  try {
    std::istringstream stream(source.text);
    YAML::Parser parser(stream);
    while (builder.status().ok() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (builder.status().ok()) return Explain(source, error, builder.innermost());
  } catch (const std::exception& error) {
    return source.ErrorAt({}, absl::StrCat("not valid YAML: ", error.what()));
  }
  PSGD_RETURN_IF_ERROR(builder.status());
  return builder.Take();
}

}  // namespace psgd
