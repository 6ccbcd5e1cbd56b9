package ncclenv

import (
	"slices"
	"strings"
	"testing"
)

func TestCredential(t *testing.T) {
	for name := range strings.FieldsSeq(`HF_TOKEN GITHUBTOKEN MY_SECRET DB_PASSWORD PGPASSWORD MYSQL_PWD WANDB_API_KEY OPENAI_APIKEY
		AWS_REGION SSH_AUTH_SOCK GITHUB_ACTOR GOOGLE_APPLICATION_CREDENTIALS NCCL_PSK KUBECONFIG SENTRY_DSN hf_token KEY VAULT_ADDR
		HF_TOKENS TOKEN1 TOKENX TOKEN_2 NCCL_ALGO_TOKENS TORCH_HUB_TOKENS HF_TOKEN_PER_USER MAX_TOKEN accessToken GORUN_WORLD_TOKEN
		PASSWORD2 PASSWORDS PasswordFile SSHPASS SSHPASS2 DB_PASS MY_PASSCODE SSH_PASSPHRASE
		SECRETKEYS CLIENT_SECRETS SECRET_1 WANDB_KEYS PRIVATE_KEYS API_KEY_2 KEY1 TS_AUTHKEY STORAGE_ACCOUNTKEY DEPLOY_SSHKEYS
		OAUTH OAUTH2 MY_OAUTH HTTP_BASICAUTH GH_PAT GH_PAT_2 PAT CREDS MY_CRED SESSION_COOKIES JWT AZURE_SAS
		CONNECTION_STRING AZURE_STORAGE_CONNECTION_STRING ConnectionStrings__Main DB_CONN_STR MONGO_CONNECTIONSTRING`) {
		if !Credential(name) || !HasCredential(name, "x") || HasCredential(name, "") || Shown(name, "x") != Hidden {
			t.Errorf("%s is not hidden", name)
		}
	}
	for name := range strings.FieldsSeq(`NCCL_IB_PKEY NCCL_IB_PKEY_VALUE NCCL_PAT_ENABLE NCCL_ALGO NCCL_DEBUG_FILE PWD OLDPWD PATH PATTERN
		TOKENIZERS_PARALLELISM TOKENIZER MY_TOKENIZERS2 DETOKENIZE TOKENISER MAX_TOKENS VLLM_MAX_NUM_BATCHED_TOKENS MAX_TOKENS_PER_BATCH
		NUM_TOKENS N_TOKENS NTOKENS maxTokens TOKENS_PER_SECOND MAX_TOKEN_LEN TOKEN_LIMIT PAD_TOKEN EOS_TOKEN_ID SPECIAL_TOKENS STOP_TOKENS
		MONKEY KEYBOARD KEYRING TURKEY PASSIVE PASSES COMPASS_DIR BYPASS SSH_ASKPASS ENCOMPASS AUTHOR AUTHORS AUTHENTIC CUDA_HOME
		CONNECTION CONNECTIONS CONNECTION_TIMEOUT STRING SIGNALS SASHIMI CREDIT COOKIECUTTER OMP_NUM_THREADS LD_LIBRARY_PATH _ 2`) {
		if Credential(name) || Shown(name, "x") != "x" {
			t.Errorf("%s is hidden", name)
		}
	}
}

// TestOnlyOneKnownNameIsACredential checks that what decides how a job works is compared
// between nodes: it must not be hidden.
func TestOnlyOneKnownNameIsACredential(t *testing.T) {
	names := strings.Fields(ncclNames + torchNames)
	for v := range rows(ncclRows[:], otherRows[:], restRows[:]) {
		names = append(names, strings.TrimSuffix(v.Name, "*"))
	}
	for _, name := range names {
		known := name == "NCCL_PSK"
		if Credential(name) != known {
			t.Errorf("Credential(%s) = %v", name, !known)
		}
	}
}

func TestShown(t *testing.T) {
	for value, want := range map[string]string{
		"Server=db;Uid=me;Password=s3cret;Port=1":                       "Server=db;Uid=me;Password=(hidden)",
		"DefaultEndpointsProtocol=https;AccountKey=s3cret==;Suffix=net": "DefaultEndpointsProtocol=https;AccountKey=(hidden)",
		"Endpoint=sb://h/;SharedAccessKey=s3cret":                       "Endpoint=sb://h/;SharedAccessKey=(hidden)",
		"https://h/data?sv=1&sig=s3cret":                                "https://h/data?sv=1&sig=(hidden)",
		"jdbc:mysql://h/db?user=me&password=s3cret":                     "jdbc:mysql://h/db?user=me&password=(hidden)",
		"postgres://me:s3cret@h/db":                                     "postgres://***@h/db",
		`{"lr": 1, "hub_token": "s3cret"}`:                              `{"lr": 1, "hub_token": (hidden)`,
		`{'apiKey':'s3cret'}`:                                           `{'apiKey':(hidden)`,
		"--lr 1 --wandb-key s3cret --steps 3":                           "--lr 1 --wandb-key (hidden)",
		"--use-auth-token --steps 3":                                    "--use-auth-token --steps 3",
		"Authorization: Bearer s3cret":                                  "Authorization: (hidden)",
		"trainer.hub_token=s3cret":                                      "trainer.hub_token=(hidden)",

		"/usr/bin:/opt/token:/home/key":             "/usr/bin:/opt/token:/home/key",
		"max_split_size_mb:128,garbage:0.8":         "max_split_size_mb:128,garbage:0.8",
		"--max-tokens=512 --tokenizer=gpt2":         "--max-tokens=512 --tokenizer=gpt2",
		`{"max_tokens": 512, "pad_token": "<pad>"}`: `{"max_tokens": 512, "pad_token": "<pad>"}`,
		"^=docker0,lo":                        "^=docker0,lo",
		"token":                               "token",
		"Password=":                           "Password=",
		"it is the key: that":                 "it is the key: (hidden)", // as in a header
		"tcp://10.0.0.1:443":                  "tcp://10.0.0.1:443",
		"mlx5_0:1,mlx5_1:1":                   "mlx5_0:1,mlx5_1:1",
		strings.Repeat("x", 300) + "_TOKEN=1": strings.Repeat("x", 300) + "_TOKEN=1", // no name is as long
		"\"":                                  "\"",
	} {
		if got := Shown("A", value); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
		if HasCredential("A", value) != (value != want) || ShownText(value) != want {
			t.Errorf("%s: HasCredential and ShownText differ from Shown", value)
		}
	}
	if HasCredential("A", strings.Repeat("x", 1<<20)) {
		t.Error("a long value counts as a credential")
	}
	// Nor does the bound cut off what marks a password.
	if got := Shown("A", strings.Repeat("x", maxValue-15)+" ftp://me:s3cret@h"); strings.Contains(got, "s3") {
		t.Errorf("...%s", got[maxValue-20:])
	}
}

func TestShownWords(t *testing.T) {
	for line, want := range map[string]string{
		"env|WANDB_API_KEY=s3cret more|A=1|train":                   "env|WANDB_API_KEY=(hidden)|A=1|train",
		"docker|run|-e|HF_TOKEN=s3cret|-e|HF_TOKEN|image":           "docker|run|-e|HF_TOKEN=(hidden)|-e|HF_TOKEN|image",
		"docker|run|--env=HF_TOKEN=s3cret|-eHF_TOKEN=s3cret|image":  "docker|run|--env=HF_TOKEN=(hidden)|-eHF_TOKEN=(hidden)|image",
		"docker|run|-eAWS_PROFILE=s3cret|-v|/run/secrets:/s|image":  "docker|run|-eAWS_PROFILE=(hidden)|-v|/run/secrets:/s|image",
		"srun|--export=ALL,HF_TOKEN=s3cret|train":                   "srun|--export=ALL,HF_TOKEN=(hidden)|train",
		"bash|-lc|cd /x; HF_TOKEN='a s3cret' python train.py":       "bash|-lc|cd /x; HF_TOKEN=(hidden)",
		"bash|-lc|exec train --api-key s3cret":                      "bash|-lc|exec train --api-key (hidden)",
		"train|--api-key|s3cret|--lr|3":                             "train|--api-key|(hidden)|--lr|3",
		"train|--api_key=s3cret|-token|s3cret|--lr=3":               "train|--api_key=(hidden)|-token|(hidden)|--lr=3",
		"train|--use-auth-token|--lr|3":                             "train|--use-auth-token|--lr|3",
		"curl|-H|Authorization: Bearer s3cret":                      "curl|-H|Authorization: (hidden)",
		"train|--repo|https://me:s3cret@h/r":                        "train|--repo|https://***@h/r",
		"train|--config|{\\\"hub_token\\\": \\\"s3cret\\\"}":        "train|--config|{\\\"hub_token\\\": (hidden)",
		"sudo|--askpass|train|--max-tokens|512|--tokenizer|gpt2||x": "sudo|--askpass|train|--max-tokens|512|--tokenizer|gpt2||x",
		"train|key|value|--author|me|--pad-token|<pad>|data/key":    "train|key|value|--author|me|--pad-token|<pad>|data/key",
	} {
		words := strings.Split(line, "|")
		if got := strings.Join(ShownWords(words), "|"); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
		if !slices.Equal(words, strings.Split(line, "|")) {
			t.Errorf("%s: the words themselves have changed", line)
		}
	}
}

func FuzzNamedIsHidden(f *testing.F) {
	f.Add("cd /x; ", "HF", "=", "more")
	f.Add("{\"", "hub", "\": ", "\"}")
	f.Add("a --", "api", " ", "")
	f.Fuzz(func(t *testing.T, before, name, separator, after string) {
		const secret = "<<s3cret>>"
		if nameEnd(name, 0) != len(name) || len(name) > 200 || strings.Contains(before, secret) || strings.Contains(name, secret) {
			t.Skip()
		}
		text := before + " " + name + "_TOKEN=" + separator + secret + after
		if got := ShownText(text); strings.Contains(got, secret) && !strings.Contains(separator, "<") {
			t.Errorf("%q: %q", text, got)
		}
	})
}
