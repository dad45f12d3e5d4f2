// SPDX-License-Identifier: Apache-2.0
//
// One message of each kind, with what it says as JSON: written by hand from doc/protocol.md, bytes in hexadecimal.
#pragma once

#include "overlay/wire.hpp"

namespace nacre::overlay {

struct Sample {
  Message message;
  std::string json;
};

inline std::vector<Sample> samples() {
  auto ids = [](const char* text) { return *Idset::parse(text); };
  auto entry = [](EntryBody body) { return Entry{7, {3, 9}, std::move(body)}; };
  auto make = [](Body body) { return Message{77, 3, std::move(body)}; };
  const std::string head = R"({"job":77,"term":3,"type":)";
  const std::string seq = head + R"("entry","seq":7,"request":{"origin":3,"number":9},"kind":)";
  const std::string req = head + R"("request","request":{"origin":3,"number":9},"kind":)";
  Snapshot snapshot{4,
                    2,
                    4,
                    {{3, 9, 6, "h:1"}, {4294967295, 3, 0, ""}},
                    ids("1"),
                    {{2, 300}},
                    {{{2, 4}, false, 9, ids("1")}},
                    {{6, ids("0-3")}}};
  Up up{6,
        70000,
        ids("5"),
        ids("1-2"),
        ids("0-3"),
        {{ids("0,2"), "x1"}},
        {{"b", {0, 5}, Merge::sum, 0, 1, "\x05"}},
        ids("5")};
  return {
      {make(Hello{4, Standing::member, 12, 10, "", ids("1,3-4"), 3}),
       head +
           R"("hello","from":4,"standing":"member","applied":12,"view":10,"address":"","suspects":"1,3-4","log_term":3})"},
      {make(Hello{9, Standing::joining, 0, 0, "h:1", {}}),
       head +
           R"("hello","from":9,"standing":"joining","applied":0,"view":0,"address":"h:1","suspects":"","log_term":0})"},
      {make(Welcome{12, 10, {}}), head + R"("welcome","applied":12,"view":10,"log_term":0})"},
      {make(Welcome{12, 10, snapshot, 2}),
       head +
           R"("welcome","applied":12,"view":10,"log_term":2,"snapshot":{"first":4,"arity":2,"size":4,"leaving":"1","seats":[
         {"slot":3,"id":9,"joined":6,"address":"h:1"},{"slot":4294967295,"id":3,"joined":0,"address":""}],
         "answered":[{"origin":2,"number":300}],
         "open":[{"request":{"origin":2,"number":4},"grow":false,"view":9,"targets":"1"}],
         "quorums":[{"view":6,"members":"0-3"}]}})"},
      {make(up), head + R"("up","view":6,"acked":70000,"suspects":"5","gone":"1-2","started":"0-3",
         "exited":[{"tasks":"0,2","what":"7831"}],
         "parts":[{"name":"b","scope":{"from":0,"to":5},"merge":"sum","at":0,"total":1,"data":"05"}],"ended":"5"})"},
      {make(Beat{5000000000, 11, {}, 12}),
       head + R"("beat","number":5000000000,"stable":11,"busy":"","complete":12})"},
      {make(Beat{0, 0, ids("0-1")}), head + R"("beat","number":0,"stable":0,"busy":"0-1","complete":0})"},
      {make(Bye{Farewell::moved, ""}), head + R"("bye","why":"moved","text":""})"},
      {make(entry(View{{{9, "h:1"}}, ids("3"), ids("5-6"), 2})),
       seq + R"("view","add":[{"id":9,"address":"h:1"}],"leave":"3","dead":"5-6","leader":2})"},
      {make(Claim{4, 2, 7, 3, true, false}),
       head + R"("claim","ballot":4,"candidate":2,"applied":7,"log_term":3,"trial":true,"sure":false})"},
      {make(Vote{4, 2, false, ids("2,5-6")}),
       head + R"("vote","ballot":4,"candidate":2,"trial":false,"voters":"2,5-6"})"},
      {make(entry(Release{"b", {0, kNoEnd}, Merge::gather, 0, 2, {"\x80\0", 2}})),
       seq + R"("release","name":"b","scope":{"from":0,"to":18446744073709551615},"merge":"gather","at":0,"total":2,
         "data":"8000"})"},
      {make(entry(Promise{"b", {0, 5}, Merge::gather, 3000000, Bytes(kDigest, 'd')})),
       seq + R"("promise","name":"b","scope":{"from":0,"to":5},"merge":"gather","size":3000000,
         "digest":"6464646464646464646464646464646464646464646464646464646464646464"})"},
      {make(entry(Event{"e", ""})), seq + R"("event","name":"e","data":""})"},
      {make(entry(Exec{6, {{2, ids("0-1")}}, "ls"})),
       seq +
           R"("exec","view":6,"map":[{"member":2,"ranks":"0-1"}],"command":"6c73","strict":false,"starts":"tasks"})"},
      {make(Request{{3, 9}, Exec{6, {{2, {}}, {5, ids("7")}}, "ls", true, ExecKind::tool}}),
       req + R"("exec","view":6,"map":[{"member":2,"ranks":""},{"member":5,"ranks":"7"}],"command":"6c73",
         "strict":true,"starts":"tool"})"},
      {make(entry(Signal{15, std::nullopt})), seq + R"("signal","number":15})"},
      {make(entry(Signal{15, ids("")})), seq + R"("signal","number":15,"ranks":""})"},
      {make(Request{{3, 9}, Signal{2, ids("0-3")}}), req + R"("signal","number":2,"ranks":"0-3"})"},
      {make(entry(ExceptionEntry{"oom", 1, "n"})), seq + R"("exception","name":"oom","severity":1,"note":"6e"})"},
      {make(entry(End{137})), seq + R"("end","code":137})"},
      {make(entry(Campaign{false, 4, ids("3"), ids("5")})),
       seq + R"("campaign","grow":false,"view":4,"done":"3","unconfirmed":"5"})"},
      {make(entry(Refused{"no", {}})), seq + R"("refused","why":"no","members":""})"},
      {make(entry(Refused{"no", ids("4,6-7")})), seq + R"("refused","why":"no","members":"4,6-7"})"},
      {make(Request{{3, 9}, Shrink{ids("1-3")}}), req + R"("shrink","leave":"1-3"})"},
      {make(Request{{3, 9}, Grow{ids("8"), 3000}}), req + R"("grow","add":"8","wait":3000})"},
      {make(Request{{3, 9}, Event{"e", "x"}}), req + R"("event","name":"e","data":"78"})"},
      {make(Request{{3, 9}, ExceptionEntry{"", 1, ""}}), req + R"("exception","name":"","severity":1,"note":""})"},
      {make(Request{{3, 9}, End{2}}), req + R"("end","code":2})"},
  };
}

}  // namespace nacre::overlay
