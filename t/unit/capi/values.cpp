// SPDX-License-Identifier: Apache-2.0
//
// Sets of ids, task maps and lists of hosts, from the side of plugins written in C: see dso/probe_*.c.
#include "catch.hpp"

#include "probed.hpp"

using nacre::plugin::Probed;

TEST_CASE("C: sets of ids") {
  Probed probed("idset");
  for (const char* topic :
       {"probe.names", "probe.creating", "probe.copying", "probe.changing", "probe.growing", "probe.growing-full",
        "probe.asking", "probe.combining", "probe.adding", "probe.storing", "probe.storing-more"}) {
    probed.passes(topic);
  }
}

TEST_CASE("C: the text of sets of ids") {
  Probed probed("idset_text");
  for (const char* topic : {"probe.decoding", "probe.decoding-grows", "probe.decoding-part",
                            "probe.decoding-as-created", "probe.decoding-nothing", "probe.decoding-facts",
                            "probe.decoding-into", "probe.long-errors", "probe.encoding"}) {
    probed.passes(topic);
  }
}

TEST_CASE("C: task maps") {
  Probed probed("taskmap");
  for (const char* topic : {"probe.of-the-job", "probe.forms", "probe.queries", "probe.building", "probe.vectors",
                            "probe.limits", "probe.taskids"}) {
    probed.passes(topic);
  }
}

TEST_CASE("C: lists of hosts") {
  Probed probed("hostlist");
  for (const char* topic : {"probe.of-the-job", "probe.text", "probe.cursor", "probe.finding", "probe.appending",
                            "probe.removing", "probe.sorting"}) {
    probed.passes(topic);
  }
}
