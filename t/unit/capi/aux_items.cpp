// SPDX-License-Identifier: Apache-2.0
#include "capi/capi.hpp"

#include "catch.hpp"

using namespace nacre::capi;  // NOLINT

namespace {

// Frees by adding to what it points to.
void add_one(void* value) { ++*static_cast<int*>(value); }

struct Order {
  std::vector<int>* freed;
  int id;
};
void note(void* value) {
  auto* order = static_cast<Order*>(value);
  order->freed->push_back(order->id);
}

}  // namespace

TEST_CASE("an aux item is freed once: when replaced, removed, or at the end") {
  int a = 0;
  int b = 0;
  int c = 0;
  {
    AuxItems items;
    CHECK(items.set("key", &a, add_one));
    CHECK(items.get("key") == &a);
    CHECK(items.set("key", &b, add_one));
    CHECK(a == 1);
    CHECK(items.set("key", nullptr, nullptr));
    CHECK(b == 1);
    CHECK(items.get("key") == nullptr);
    CHECK(items.set(nullptr, &c, add_one));
    CHECK(items.get("") == nullptr);
    CHECK(c == 0);
  }
  CHECK(a == 1);
  CHECK(b == 1);
  CHECK(c == 1);
}

TEST_CASE("aux items without a function belong to their owner") {
  int a = 0;
  AuxItems items;
  CHECK(items.set("key", &a, nullptr));
  items.remove(&a);
  CHECK(items.get("key") == nullptr);
  CHECK(a == 0);
}

TEST_CASE("aux items go newest first") {
  std::vector<int> freed;
  Order one{&freed, 1};
  Order two{&freed, 2};
  Order three{&freed, 3};
  AuxItems items;
  CHECK(items.set("a", &one, note));
  CHECK(items.set(nullptr, &two, note));
  CHECK(items.set("c", &three, note));
  items.remove(&one);
  items.clear();
  CHECK(freed == std::vector<int>{1, 3, 2});
}

TEST_CASE("aux items refuse what could never be freed or found") {
  int a = 0;
  AuxItems items;
  CHECK(items.set(nullptr, nullptr, nullptr).error().code == EINVAL);
  CHECK(items.set("key", nullptr, add_one).error().code == EINVAL);
  CHECK(items.set(nullptr, &a, nullptr).error().code == EINVAL);
}
