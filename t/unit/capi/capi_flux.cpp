// SPDX-License-Identifier: Apache-2.0
//
// The C API beyond the shell's own: reactors, futures, messages, processes. dso/probe_*.c check what they get; what
// they begin in one topic goes on in the host's loop, and they check it in the next topic.

#include "catch.hpp"

#include "capi/loader.hpp"
#include "fake_job.hpp"
#include "probed.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

TEST_CASE("C: reactors and watchers") {
  Probed probed("reactor");
  for (const char* topic : {"probe.refused", "probe.silent", "probe.never-early", "probe.own-reactor",
                            "probe.clocks", "probe.periodic", "probe.phases", "probe.descriptors", "probe.files"}) {
    probed.passes(topic);
  }
}

TEST_CASE("C: watchers on the shell's own loop; one that is left behind does no harm") {
  Probed probed("reactor");
  probed.passes("probe.begin");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.end");
}

TEST_CASE("C++: what a callback throws ends the job, and goes no further") {
  kit::FakeHost host;
  REQUIRE(load(host, DSO_DIRECTORY "/throws_later.so", nullptr));
  REQUIRE(host.run_loop());
  REQUIRE(host.exceptions.size() == 1);
  CHECK(host.exceptions[0].severity == 0);
  CHECK(host.exceptions[0].message ==
        "plugin 'throws_later': timer callback: the plugin threw an exception: too late");
}

TEST_CASE("C: futures") {
  Probed probed("future");
  for (const char* topic : {"probe.results", "probe.refused", "probe.carried", "probe.waiting", "probe.several",
                            "probe.one-after-another"}) {
    probed.passes(topic);
  }
  probed.passes("probe.begin");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.end");
  probed.passes("probe.begin-again");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.end-again");
}

TEST_CASE("C: messages") {
  Probed probed("message");
  for (const char* topic : {"probe.fields", "probe.matching", "probe.senders", "probe.kinds", "probe.lists"}) {
    probed.passes(topic);
  }
}

TEST_CASE("C: calls to the services of this shell") {
  Probed probed("rpc");
  probed.passes("probe.calls");
  probed.passes("probe.begin");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.middle");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.end");
}

TEST_CASE("C: events, and which handler a message goes to") {
  Probed probed("rpc");
  probed.passes("probe.handlers");
  probed.passes("probe.by-hand");
  probed.passes("probe.publish");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.published");
}

TEST_CASE("C: the handle") {
  Probed probed("rpc");
  probed.passes("probe.handle");
}

TEST_CASE("C: flux_log") {
  Probed probed("rpc");
  probed.passes("probe.log");
  CHECK(probed.host.logged == std::vector<std::string>{"error probe-rpc: error 1", "warn probe-rpc: warning",
                                                       "notice probe-rpc: info", "debug probe-rpc: debug",
                                                       "error probe-rpc: file x: No such file or directory",
                                                       "notice app: part: n is 5"});
}

TEST_CASE("C: messages and calls between threads") {
  Probed probed("threads");
  probed.passes("probe.threads");
  probed.passes("probe.calls-of-threads");
}

TEST_CASE("C: clones of handles") {
  Probed probed("clone");
  probed.passes("probe.identity");
  probed.passes("probe.own-loop");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.after-own-loop");
  probed.passes("probe.waiting");
  probed.passes("probe.shared-loop");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.after-shared-loop");
  probed.passes("probe.of-a-link");
}

TEST_CASE("C: the version, options of the handle, routes, and facts of the job") {
  Probed probed("facts");
  for (const char* topic : {"probe.version", "probe.options", "probe.routes", "probe.job", "probe.raise"}) {
    probed.passes(topic);
  }
  REQUIRE(probed.host.exceptions.size() == 2);
  CHECK(probed.host.exceptions[0].type == "test");
  CHECK(probed.host.exceptions[0].severity == 3);
  CHECK(probed.host.exceptions[0].message == "a note");
  CHECK(probed.host.exceptions[1].message.empty());
}

TEST_CASE("C: the hosts of the job") {
  kit::FakeJob job(3, 1);
  REQUIRE(load(job[1], DSO_DIRECTORY "/probe_facts.so", nullptr));
  auto called = job[1].call("probe.hosts");
  INFO((job[1].logged.empty() ? "" : job[1].logged.back()));
  CHECK(called == 1);
}

TEST_CASE("C: processes") {
  std::signal(SIGPIPE, SIG_IGN);
  Probed probed("process");
  probed.passes("probe.refused");
  probed.passes("probe.options");
  probed.passes("probe.begin");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.end");
  probed.passes("probe.begin-others");
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.end-others");
}

TEST_CASE("C: a task as a process") {
  Probed probed("process");
  probed.host.make_tasks();
  probed.passes_for_task("probe.task", 2);
  CHECK(probed.host.tasks()[2]->command().channels == std::vector<std::string>{"PMI_FD", "stdout"});
}

TEST_CASE("C: job ids, and the events of the job") {
  Probed probed("job");
  probed.passes("probe.ids");
  probed.host.events().add({{"timestamp", 1.5}, {"name", "shell.init"}, {"context", {{"size", 1}}}});
  probed.passes("probe.watch");
  probed.host.events().add({{"timestamp", 2.5}, {"name", "shell.exit"}});
  REQUIRE(probed.host.run_loop());
  probed.passes("probe.watched");
}

TEST_CASE("C: what only a broker has says so") {
  Probed probed("job");
  probed.passes("probe.absent");
  REQUIRE_FALSE(probed.host.logged.empty());
  CHECK(probed.host.logged.front() ==
        "debug : flux_kvs_lookup: not offered by this shell: there is no Flux broker");
}
