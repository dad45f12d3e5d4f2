// SPDX-License-Identifier: Apache-2.0
#include "value/template.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using nacre::value::has_tags;
using nacre::value::kMaxRendered;
using nacre::value::render;

namespace {

Result<std::optional<std::string>> lookup(std::string_view tag) {
  using Found = std::optional<std::string>;
  if (tag == "name") return Found("foo");
  if (tag == "number") return Found("42");
  if (tag == "node.id") return Found("3");
  if (tag == "empty") return Found("");
  if (tag == "nested") return Found("{{name}}");
  if (tag == "bad") return invalid("no such thing");
  return Found();
}

std::string rendered(std::string_view text) {
  INFO(text);
  auto out = render(text, lookup);
  if (!out) FAIL(out.error().message);
  return *out;
}

}  // namespace

TEST_CASE("known tags are replaced") {
  CHECK(rendered("test-{{name}}") == "test-foo");
  CHECK(rendered("test-{{name}}.out") == "test-foo.out");
  CHECK(rendered("{{number}}") == "42");
  CHECK(rendered("{{name}}-{{number}}.out") == "foo-42.out");
  CHECK(rendered("{{name}}{{node.id}}") == "foo3");
  CHECK(rendered("{{ name\t}}") == "foo");
  CHECK(rendered("<{{empty}}>") == "<>");
}

TEST_CASE("text without tags and unknown tags stay as they are") {
  for (const char* text :
       {"", "notemplate", "{{", "foo-{{", "}}", "foo-}}", "{{boop}}", "{{ boop }}", "{{}}", "{{ }}", "{name}",
        "{{name}", "{ {name}}", "}}{{", "{{{boop}}}", "{{node.id.x}}", "{{Name}}"}) {
    CHECK(rendered(text) == text);
  }
}

TEST_CASE("a tag is the shortest piece in double braces") {
  CHECK(rendered("{{{name}}}") == "{foo}");
  CHECK(rendered("{{{{name}}}}") == "{{foo}}");
  CHECK(rendered("{{ {{name}}") == "{{ foo");
  CHECK(rendered("}} {{name}} {{") == "}} foo {{");
  CHECK(rendered("{{}}{{name}}") == "{{}}foo");
  CHECK(rendered(R"({"id":{{number}}})") == R"({"id":42})");
}

TEST_CASE("values are not rendered again") { CHECK(rendered("{{nested}}") == "{{name}}"); }

TEST_CASE("an error of the lookup names the tag") {
  CHECK(render("x{{bad}}", lookup).error().message == "{{bad}}: no such thing");
}

TEST_CASE("a text has tags if there is a name in double braces") {
  for (const char* text : {"{{x}}", "a{{ x }}b", "{{}}{{x}}", "{{{x}}}"}) CHECK(has_tags(text));
  for (const char* text : {"", "x", "{{x", "x}}", "{{}}", "{{  }}", "}}x{{", "{x}"}) CHECK_FALSE(has_tags(text));
}

TEST_CASE("what is rendered has a limit") {
  std::string half(kMaxRendered / 2, 'x');
  auto doubling = [&](std::string_view) -> Result<std::optional<std::string>> { return std::optional(half); };
  CHECK(render("{{a}}{{a}}", doubling)->size() == kMaxRendered);
  std::string too_long = "template: the rendered text is longer than 1048576 bytes";
  CHECK(render("{{a}}{{a}}x", doubling).error().message == too_long);
  CHECK(render("{{a}}{{a}}{{a}}", doubling).error().message == too_long);
  CHECK(render(std::string(kMaxRendered + 1, 'x'), lookup).error().message == too_long);
}

TEST_CASE("many braces are read in one pass") {
  std::string open(kMaxRendered, '{');
  CHECK(rendered(open) == open);
  std::string close(kMaxRendered, '}');
  CHECK(rendered(close) == close);
}
