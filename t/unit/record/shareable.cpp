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
  CHECK(text_without_secrets("\"token\": \"abc, d\",\n") == "\"token\": \"(left out)\",\n");
  CHECK(text_without_secrets("KeyError: 'x'\n") == "KeyError: 'x'\n");
  CHECK(text_without_secrets("token=") == "token=");
  CHECK(text_without_secrets("a\n-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nb") ==
        "a\n(left out)-----END PRIVATE KEY-----\nb");
}

// What stands for a secret in the forms below.
constexpr const char* kSecret = "aZ3kQ9vB7nM2xC5rT8yU1wE4pL6sD0fGhJ2kL4mN";

std::string with_secret(std::string form) {
  for (std::size_t at = form.find('%'); at != std::string::npos; at = form.find('%')) form.replace(at, 1, kSecret);
  return form;
}

constexpr const char* kStarts[] = {"AGE-SECRET-KEY-1",
                                   "ABIA",
                                   "ACCA",
                                   "AKIA",
                                   "ASIA",
                                   "AIza",
                                   "GOCSPX-",
                                   "ya29.",
                                   "ATATT3",
                                   "ATBB",
                                   "CCIPAT_",
                                   "dapi",
                                   "dp.pt.",
                                   "dckr_pat_",
                                   "dop_v1_",
                                   "doo_v1_",
                                   "dor_v1_",
                                   "figd_",
                                   "fo1_",
                                   "FlyV1",
                                   "ghp_",
                                   "gho_",
                                   "ghu_",
                                   "ghs_",
                                   "ghr_",
                                   "github_pat_",
                                   "glpat-",
                                   "glptt-",
                                   "gldt-",
                                   "glrt-",
                                   "glft-",
                                   "glcbt-",
                                   "glimt-",
                                   "glagent-",
                                   "glsoat-",
                                   "glsa_",
                                   "glc_",
                                   "gsk_",
                                   "hf_",
                                   "api_org_",
                                   "hvs.",
                                   "hvb.",
                                   "hvr.",
                                   "lin_api_",
                                   "npm_",
                                   "nvapi-",
                                   "ops_eyJ",
                                   "pplx-",
                                   "PMAK-",
                                   "pscale_tkn_",
                                   "pscale_pw_",
                                   "pul-",
                                   "pypi-AgE",
                                   "r8_",
                                   "rubygems_",
                                   "sbp_",
                                   "SG.",
                                   "shpat_",
                                   "shpss_",
                                   "shpca_",
                                   "sk-",
                                   "sk-proj-",
                                   "sk-ant-api03-",
                                   "sk_live_",
                                   "sk_test_",
                                   "rk_live_",
                                   "whsec_",
                                   "sntrys_",
                                   "sntryu_",
                                   "tskey-auth-",
                                   "xai-",
                                   "xapp-1-",
                                   "xoxb-",
                                   "xoxp-"};

TEST_CASE("texts lose tokens that begin as services publish it", "[shareable]") {
  for (const char* start : kStarts) {
    std::string token = std::string(start) + kSecret;
    INFO(token);
    CHECK(text_without_secrets("pull with " + token + ", then") == "pull with (left out), then");
    CHECK(text_without_secrets("https://" + token + "@github.com/a/b") == "https://(left out)@github.com/a/b");
    CHECK_FALSE(may_show("OMPI_X", token));
  }
  for (const char* address : {"hooks.slack.com/services/T01/B02/", "discord.com/api/webhooks/123/",
                              "discordapp.com/api/webhooks/123/", "acme.webhook.office.com/webhookb2/"})
    CHECK(text_without_secrets("https://" + std::string(address) + kSecret).find(kSecret) == std::string::npos);
}

TEST_CASE("texts lose values that are a secret by what stands before them", "[shareable]") {
  for (const char* form : {"api_key = \"%\"",
                           "api_key='%'",
                           "api_key: '%'",
                           "apiKey := \"%\"",
                           "password : %",
                           "password  =  %",
                           "password => '%'",
                           "\"password\" : \"%\",",
                           "{'auth_token': '%'}",
                           "export DB_PASSWORD=%",
                           "DB_PASS=% ./app",
                           "machine: h, passwd: %",
                           "Authorization: token %",
                           "Authorization: Bearer %",
                           "curl -H 'PRIVATE-TOKEN: %' https://h/x",
                           "curl -H \"X-Api-Key: %\" https://h/x",
                           "GET /v1?access_token=%&x=1",
                           "GET /v1?sv=2024&sig=%&se=1",
                           "GET /v1?X-Amz-Signature=%",
                           "Set-Cookie: session=%; Path=/",
                           "client_secret=%",
                           "postgres://me:%@h/db",
                           "https://%@h/x",
                           "https://oauth2:%@gitlab.com/a",
                           "redis://:%@h:6379/0",
                           "curl -u me:% https://h",
                           "curl -sS -ume:% https://h",
                           "curl --user me:% https://h",
                           "curl --user=me:% https://h",
                           "curl --proxy-user me:% https://h",
                           "/usr/bin/curl -U me:% https://h",
                           "http -a me:% https://h",
                           "mysql -u me -p% db",
                           "mysqldump -p% db",
                           "mariadb -h h -p%",
                           "sshpass -p % ssh h",
                           "sshpass -p% ssh h",
                           "redis-cli -h h -a %",
                           "ldapsearch -x -w % -b dc",
                           "mongosh -u me -p %",
                           "openssl enc -k % -in x",
                           "openssl rsa -passin pass:%",
                           "train --token % --lr 1",
                           "train --api-key %",
                           "train --hf-token=%",
                           "cd /x && train --password %"}) {
    std::string text = with_secret(form);
    INFO(text);
    CHECK(text_without_secrets(text).find(kSecret) == std::string::npos);
    CHECK(words_without_secrets({"sh", "-c", text})[2].find(kSecret) == std::string::npos);
  }
}

TEST_CASE("texts keep what only looks like a secret", "[shareable]") {
  for (const char* text : {"ssh://git@host/a", "https://me@host/a", "docker run -u 1000:1000 image",
                           "mysql -h host -P 3306 db", "curl -u me https://h", "sk-learn-is-a-library-for-learning",
                           "hf_transfer", "npm_config_registry_of_this_host", "tar -p -x", "key", "if (a == b) c",
                           "the token", "mkdir -p /a/b", "sort -k 2", "http://host:80/a"}) {
    INFO(text);
    CHECK(text_without_secrets(text) == text);
  }
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
