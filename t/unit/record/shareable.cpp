// SPDX-License-Identifier: Apache-2.0
#include "record/shareable.hpp"

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre::record;  // NOLINT
using nacre::Json;
using Words = std::vector<std::string>;

TEST_CASE("values of listed variables may be shown, unless name or value looks like a secret", "[shareable]") {
  CHECK(may_show("OMP_NUM_THREADS", "4"));
  CHECK(may_show("PATH", "/usr/bin:/opt/monkey:/opt/key/bin"));
  CHECK(may_show("PWD", "/home/me"));
  CHECK(may_show("SLURM_JOB_ID", "17"));
  CHECK(may_show("LC_ALL", "C"));
  for (const char* name :
       {"MY_APP", "OMP", "XPATH", "PATHS", "slurm_job_id", "", "AWS_REGION", "PMI_FD", "PMIX_SERVER_URI4"})
    CHECK_FALSE(may_show(name, "1"));
  for (const char* name :
       {"SLURM_JWT", "NACRE_TOKEN", "FLUX_secret", "UCX_PASSWORD", "OMPI_MCA_passwd", "NCCL_AUTH", "CUDA_API_KEY",
        "XDG_COOKIE", "PBS_CREDENTIALS", "OMPI_PASS", "OMPI_DB_PWD"})
    CHECK_FALSE(may_show(name, "1"));
  for (const char* value : {"http://me:word@host/", "a=1 token=x", "--password=abc",
                            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3", "-----BEGIN RSA PRIVATE KEY-----\nabc"})
    CHECK_FALSE(may_show("OMPI_X", value));
  CHECK(may_show("OMPI_X", "http://host:80/a@b"));
  CHECK(may_show("OMPI_X", std::string(kMaxShownValue, 'x')));
  CHECK_FALSE(may_show("OMPI_X", std::string(kMaxShownValue + 1, 'x')));
}

TEST_CASE("names of secrets, wherever their words are", "[shareable]") {
  for (const char* name :
       {"token", "db-password", "MyApiKey", "x.secret.y", "pass", "DB_PASS", "pw", "client_auth"})
    CHECK(is_secret_name(name));
  for (const char* name : {"PWD", "OLDPWD", "compass", "bypass", "path", "", "tasks", "cpu-affinity"})
    CHECK_FALSE(is_secret_name(name));
  for (auto word : secret_words()) CHECK(is_secret_name("x" + std::string(word) + "y"));
}

TEST_CASE("each listed name may be shown", "[shareable]") {
  for (auto each : shown_names()) {
    std::string name(each);
    if (name.back() == '*') name.back() = 'X';
    CHECK(may_show(name, "1"));
  }
}

TEST_CASE("words of a command lose the values of secrets", "[shareable]") {
  CHECK(words_without_secrets({"a", "--token", "x", "--user", "me"}) ==
        Words{"a", "--token", "(left out)", "--user", "me"});
  CHECK(words_without_secrets({"--token", "--user"}) == Words{"--token", "--user"});
  CHECK(words_without_secrets({"--token=x", "token=y", "k=v"}) ==
        Words{"--token=(left out)", "token=(left out)", "k=v"});
  CHECK(words_without_secrets({"curl", "https://a:b@h/p?x"}) == Words{"curl", "https://(left out)@h/p?x"});
  CHECK(words_without_secrets({"token"}) == Words{"token"});
}

TEST_CASE("texts lose URLs' passwords, keys, tokens, and what follows a secret's name", "[shareable]") {
  CHECK(text_without_secrets("") == "");
  CHECK(text_without_secrets("nothing here: 5, a=b\n") == "nothing here: 5, a=b\n");
  CHECK(text_without_secrets("x http://a:b@h y ftp://c:d@e\n") == "x http://(left out)@h y ftp://(left out)@e\n");
  CHECK(text_without_secrets("Authorization: Bearer abc def\nnext") == "Authorization: (left out)\nnext");
  CHECK(text_without_secrets("password=abc, secret=x;y") == "password=(left out), secret=(left out);y");
  CHECK(text_without_secrets("\"token\": \"abc\",\n") == "\"token\": (left out)\n");
  CHECK(text_without_secrets("KeyError: 'x'\n") == "KeyError: 'x'\n");
  CHECK(text_without_secrets("token=") == "token=");
  CHECK(text_without_secrets("a\n-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nb") ==
        "a\n(left out)-----END PRIVATE KEY-----\nb");
}

TEST_CASE("JSON loses members with a secret's name, and texts as such", "[shareable]") {
  Json before{{"token", "x"},
              {"a", {{"password", 5}, {"b", "secret=y"}}},
              {"words", {"--key", "z"}},
              {"n", 1},
              {"auth", {{"on", true}}}};
  Json after{{"token", "(left out)"},
             {"a", {{"password", "(left out)"}, {"b", "secret=(left out)"}}},
             {"words", {"--key", "(left out)"}},
             {"n", 1},
             {"auth", {{"on", true}}}};
  CHECK(json_without_secrets(before) == after);
  CHECK(json_without_secrets(Json()) == Json());
  CHECK(json_without_secrets(Json{1, "token=x"}) == Json{1, "token=(left out)"});
}
