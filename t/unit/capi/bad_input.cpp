// SPDX-License-Identifier: Apache-2.0
//
// Wrong calls of plugins in C: see dso/probe_bad_input.c.
#include "catch.hpp"

#include "base/json.hpp"
#include "probed.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

TEST_CASE("C: formats that are malformed, or do not match, fail each call alike") {
  Probed probed("bad_input");
  probed.host.options().set("color", "red");
  probed.host.options().set("nested.n", 3);
  Json before = probed.host.options().json();
  for (const char* topic :
       {"probe.formats-to-unpack", "probe.formats-that-do-not-match", "probe.formats-to-pack"}) {
    probed.passes(topic);
  }
  CHECK(probed.host.options().json() == before);
  CHECK(probed.host.event_context.empty());
}

TEST_CASE("C: why a format does not match is in the debug log") {
  Probed probed("bad_input");
  probed.host.options().set("color", "red");
  (void)probed.host.call("probe.formats-that-do-not-match");
  REQUIRE_FALSE(probed.host.logged.empty());
  CHECK(probed.host.logged.front() == "debug : option color: Expected integer, got string");
}

TEST_CASE("C: another plugin's handler that fails is an error of the call that asked for it") {
  Probed probed("bad_input");
  auto plugin = std::make_unique<Plugin>("refuses");
  for (const char* topic : {"hwloc.xml", "shell.log-setlevel", "mustache.render.refused", "refused"}) {
    plugin->on(topic, [](Call&) -> Result<void> { return invalid("no luck"); });
  }
  probed.host.stack().push(std::move(plugin));
  probed.passes("probe.refused");
  CHECK(probed.host.logged.back() == "error : plugin 'refuses': refused: no luck");
}

TEST_CASE("C: attached data is freed once, also by functions that attach and remove") {
  Probed("bad_input").passes("probe.freeing");
}

TEST_CASE("C: a handler may remove handlers, itself too, while it runs") {
  Probed probed("bad_input");
  probed.passes("probe.changing-handlers");
  CHECK(probed.host.call("probe.changing-handlers") == 0);
}

TEST_CASE("C: outside of a topic of a task there is no current task") {
  Probed probed("bad_input");
  probed.host.make_tasks();
  probed.passes("probe.outside-of-tasks");
}
