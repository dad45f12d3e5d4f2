// SPDX-License-Identifier: Apache-2.0
//
// The part of a FakeHost that records how a plugin wants the job's shells to change.
#pragma once

#include <utility>
#include <vector>

#include "plugin/host.hpp"

namespace nacre::kit {

class FakeResizing : public virtual plugin::Resizing {
 public:
  plugin::Registration shrink(const value::ShrinkOrder& order, WhenShrunk news) override {
    shrink_orders.push_back(order);
    return shrunk_.add(std::move(news));
  }
  void offer_release(plugin::NodeRelease* given) override { node_release = given; }
  void grow(const value::GrowOrder&, const WhenGrown& news) override {
    news(Error{ENOTSUP, "no grows here"}, true);
  }
  bool joined_late() const override { return is_newcomer; }
  Replaced leave_out(const value::Idset& shells) override {
    left_out.push_back(shells);
    return replaced;
  }
  void be_lost() override { is_lost = true; }

  void shrunk(const Result<Json>& news, bool is_last) { shrunk_.call(news, is_last); }  // what a test does with it
  bool is_newcomer = false;
  Replaced replaced;  // what leave_out() returns

  std::vector<value::ShrinkOrder> shrink_orders;  // what the plugin did
  plugin::NodeRelease* node_release = nullptr;
  std::vector<value::Idset> left_out;  // of each leave_out()
  bool is_lost = false;

 private:
  plugin::CallbackList<const Result<Json>&, bool> shrunk_;
};

}  // namespace nacre::kit
