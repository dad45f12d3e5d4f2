// SPDX-License-Identifier: Apache-2.0
//
// The part of a FakeHost that is about the job, of which only this shell is there, and the job's other shells: what
// this one sends comes to itself alone.
#pragma once

#include "job/job.hpp"
#include "plugin/host.hpp"

namespace nacre::kit {

class FakeShells : public virtual plugin::OtherShells {
 public:
  explicit FakeShells(job::Job job);

  plugin::Registration gather(std::string_view name, std::string mine, WhenGathered done) override;
  plugin::Registration gather_up_to(std::uint32_t last, std::string_view name, std::string mine,
                                    WhenGathered done) override;
  std::uint32_t last_with_tasks() const override { return with_tasks.value_or(job_.shells() - 1); }
  Result<void> announce(std::string_view topic, std::string_view bytes) override;
  plugin::Registration on_announcement(Receive receive) override { return announced_.add(std::move(receive)); }
  plugin::ShellMessages& messages() override { return shell_messages_; }
  void hold_links(const value::Idset& shells) override { held_links.push_back(shells); }
  plugin::Registration exec(value::ExecOrder order, WhenOrdered done) override;
  plugin::Registration on_exec(std::function<void(const value::ExecShare&)> receive) override {
    return ordered_to_.add(std::move(receive));
  }
  bulk::Port* bulk() override { return port; }

  // What a test does with it.
  void announced(std::string_view topic, std::string_view bytes);           // to those that listen here
  void ordered(const value::ExecShare& share) { ordered_to_.call(share); }  // to those that listen here
  bulk::Port* port = nullptr;
  plugin::Gathered gathers_elsewhere;       // what other shells give, whatever the name
  std::optional<std::uint32_t> with_tasks;  // the last shell of those with tasks

  // What the plugin has done.
  std::map<std::string, std::string> gathers;   // what it has given, by name
  std::optional<std::uint32_t> gathered_up_to;  // the last shell of a gather
  std::vector<value::Idset> held_links;         // of each call
  std::vector<value::ExecOrder> orders;         // of exec

 protected:
  job::Job job_;

 private:
  plugin::CallbackList<std::string_view, std::string_view> announced_;
  plugin::ShellMessages shell_messages_;
  plugin::CallbackList<const value::ExecShare&> ordered_to_;
};

}  // namespace nacre::kit
