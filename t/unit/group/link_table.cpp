// SPDX-License-Identifier: Apache-2.0
#include "group/link_table.hpp"

#include "group_world.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT

TEST_CASE("what is for a link that has gone is dropped, and the link may be dialled again meanwhile") {
  World world(2);
  bool linked = false;
  LinkTable::Callbacks callbacks;
  callbacks.on_linked = [&](overlay::LinkName link) { linked = link == overlay::LinkName{0, overlay::Side::up}; };
  callbacks.on_unlinked = [](overlay::LinkName, const Error& why) { FAIL(why.message); };
  callbacks.on_closed = [] {};
  auto table = LinkTable::create(*world.loop, world.memberships[1], std::move(callbacks)).value();
  world.start(0);
  REQUIRE(table->dial(0));
  CHECK(table->send({0, overlay::Side::up}, "late"));
  CHECK(table->grant({0, overlay::Side::up}, 1, 1));
  CHECK(table->write({0, overlay::Side::up}, 1, "late") == 0);
  world.run_until([&] { return linked; });
}
