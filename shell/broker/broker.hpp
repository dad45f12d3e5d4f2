// SPDX-License-Identifier: Apache-2.0
//
// A connection to the broker of a Flux instance on this host, by its Unix socket. It waits for answers by itself
// (ask) before there is a loop; from attach() on the loop serves it. Payloads are JSON (RFC 6), but for those of
// raw messages.
#pragma once

#include "base/json.hpp"
#include "base/unique_fd.hpp"
#include "broker/message.hpp"
#include "event/loop.hpp"

namespace nacre::broker {

class Broker : Noncopyable {
 public:
  // `uri`: "local://PATH". `timeout`: seconds for the connection, and for each ask(). Errors name the path.
  static Result<std::unique_ptr<Broker>> connect(std::string_view uri, double timeout);

  // ---- before attach(): calls that wait for the answer. An error has the broker's errno and text, after the
  // topic.
  Result<Json> ask(std::string_view topic, const Json& payload) { return answer(begin(topic, payload)); }
  // ask() in two steps, for several questions at a time.
  struct Asked {
    std::uint32_t tag;
    std::string topic;
  };
  [[nodiscard]] Asked begin(std::string_view topic, const Json& payload);
  Result<Json> answer(const Asked& asked);
  // A stream, whose first response answer() has; the later ones come to follow()'s function, from attach() on.
  [[nodiscard]] Asked begin_stream(std::string_view topic, const Json& payload);
  // Bytes as they are, each way.
  [[nodiscard]] Asked begin_raw(std::string_view topic, std::string payload);
  Result<std::optional<std::string>> raw_answer(const Asked& asked, double seconds);  // none: no answer by then
  void follow(const Asked& stream, std::function<void(Result<Json>)> on_response);

  // ---- with the loop
  struct Receivers {
    std::function<void(const BrokerMessage&)> on_request;  // to a service of this process
    std::function<void(const BrokerMessage&)> on_event;    // to which we have subscribed
    std::function<void(const Error&)> on_lost;             // once; all calls have failed by then
  };
  Result<void> attach(event::Loop& loop, Receivers receivers);
  [[nodiscard]] bool is_attached() const { return poll_.has_value(); }
  void detach();  // no callback is called any more

  // Calls back once, or for each response of a stream up to an error, which is its last (ENODATA: its end).
  using OnResponse = std::function<void(const BrokerMessage&)>;
  // The request's matchtag is chosen here, and returned.
  std::uint32_t send_request(BrokerMessage request, OnResponse on_response);
  using OnAnswer = std::function<void(Result<Json>)>;
  std::uint32_t call(std::string_view topic, const Json& payload, OnAnswer on_answer,
                     std::uint32_t node = kAnyNode);
  std::uint32_t call_with_text(std::string_view topic, std::string payload, OnAnswer on_answer);  // JSON
  void forget(std::uint32_t tag) { calls_.erase(tag); }  // the call's function is not called any more
  // For callers that cannot wait for the loop: waits for the next response to one of these calls, and calls its
  // function. Other messages are left to the loop. ETIMEDOUT: `timeout` seconds have passed.
  Result<void> wait_for_response(const std::function<bool(std::uint32_t tag)>& wanted, double timeout);
  // A request that is answered without a matchtag: the next response with its topic is the answer.
  void call_by_topic(std::string_view topic, const Json& payload, OnAnswer on_answer);

  void send(const BrokerMessage& message);  // as it is
  void respond(const BrokerMessage& request, const Json& payload);
  void respond_error(const BrokerMessage& request, int code, std::string_view why);

  [[nodiscard]] std::size_t unsent() const {
    return unsent_.size() - sent_;
  }  // bytes that the broker has not taken
  // Calls `then` from the loop, once the broker has taken all. Does not call it if the broker goes before that.
  void when_sent(std::function<void()> then) { when_sent_.push_back(std::move(then)); }
  [[nodiscard]] bool is_lost() const { return lost_.has_value(); }
  [[nodiscard]] const std::string& uri() const { return uri_; }
  // The user as whom the broker runs, by the kernel; none: it does not say.
  [[nodiscard]] std::optional<std::uint32_t> owner() const;
  // Waits until all has been sent, or a second has passed; for the end of a process.
  void flush();

 private:
  Broker(UniqueFd fd, std::string uri, double timeout)
      : fd_(std::move(fd)), uri_(std::move(uri)), timeout_(timeout) {}

  Result<BrokerMessage> await(const std::function<bool(std::uint32_t tag)>& wanted, double timeout);
  Result<void> read();
  Result<void> write();
  void ready(int events);
  void deliver();
  void deliver_response(const BrokerMessage& response);
  void lose(const Error& why);
  void watch();

  UniqueFd fd_;
  std::string uri_;
  double timeout_;
  BrokerFrames frames_;
  std::deque<BrokerMessage> received_;  // but not delivered
  std::string unsent_;
  std::size_t sent_ = 0;  // of unsent_
  std::vector<std::function<void()>> when_sent_;
  std::map<std::uint32_t, OnResponse> calls_;
  std::map<std::string, std::deque<OnAnswer>, std::less<>> by_topic_;
  std::uint32_t last_tag_ = kNoTag;
  std::optional<Error> lost_;
  Receivers receivers_;
  std::optional<event::Poll> poll_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // a callback may destroy this
};

// The answer in a response: its payload, {} if it has none, or its error with the topic before it.
Result<Json> answer_of(const BrokerMessage& response);
[[nodiscard]] BrokerMessage request_of(std::string_view topic, const Json& payload, std::uint32_t node = kAnyNode);
// A response to the request, without a payload.
[[nodiscard]] BrokerMessage response_to(const BrokerMessage& request);
// The bytes of "data" in an object of RFC 24: text, or base64 if "encoding" says so.
Result<std::string> data_in(const JsonAt& io);
// The client that has sent a request: the broker's name for its connection.
[[nodiscard]] std::string sender_of(const BrokerMessage& request);

}  // namespace nacre::broker
