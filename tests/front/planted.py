"""Secrets that are none: one of each kind, in the form that its service gives out.

They are put together at run time, because a scanner of this repository is right to stop at one in a source
file. In a form, `{hex:32}` is 32 characters of that alphabet.
"""

from __future__ import annotations

import base64
import random
import re
import string
import textwrap
from typing import NamedTuple

_ALPHABETS = {
    "hex": "0123456789abcdef",
    "word": string.ascii_letters + string.digits,
    "url": string.ascii_letters + string.digits + "_-",
    "base64": string.ascii_letters + string.digits + "+/",
    "small": string.ascii_lowercase + string.digits,
    "base32": string.ascii_uppercase + "234567",
    "digit": string.digits,
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "bech32": "023456789acdefghjklmnpqrstuvwxyz",
}
_UUID = "{hex:8}-{hex:4}-4{hex:3}-a{hex:3}-{hex:12}"


class Planted(NamedTuple):
    kind: str
    text: str
    """The secret, with the name or the address that it was found by."""
    secret: str


def planted() -> list[Planted]:
    """The part of a form between « and » is the secret; a form without them is one as a whole."""
    made = []
    for kind, form in FORMS:
        text = _filled(form)
        secret = text[text.find("«") + 1 : text.index("»")] if "«" in text else text
        made.append(Planted(kind, text.replace("«", "").replace("»", ""), secret))
    return [*made, *(Planted("private key", armored(lines), lines) for lines in OPENSSH_KEYS)]


def armored(lines: str) -> str:
    return f"-----BEGIN OPENSSH PRIVATE KEY-----\n{lines}\n-----END OPENSSH PRIVATE KEY-----\n"


def _filled(form: str) -> str:
    chosen = random.Random(form)

    def characters(part: re.Match[str]) -> str:
        return "".join(chosen.choices(_ALPHABETS[part[1]], k=int(part[2])))

    return re.sub(r"\{(\w+):(\d+)\}", characters, form.replace("{uuid:1}", _UUID))


def _openssh_key(public: list[bytes], private: list[bytes]) -> str:
    """The lines of a key as `ssh-keygen -N ''` writes them. Each part of it is a list of strings."""
    kept = bytes(8) + b"".join(map(_sized, [*public, *private, b"me@laptop"]))
    kept += bytes(range(1, 1 + -len(kept) % 8))
    start = b"openssh-key-v1\0" + _sized(b"none") * 2 + _sized(b"") + (1).to_bytes(4, "big")
    data = start + _sized(b"".join(map(_sized, public))) + _sized(kept)
    return textwrap.fill(base64.b64encode(data).decode(), 70)


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _ed25519_key(seed: int) -> str:
    number = random.Random(seed).randbytes
    return _openssh_key([b"ssh-ed25519", number(32)], [number(64)])


def _rsa_key(seed: int) -> str:
    number = random.Random(seed).randbytes
    sizes = (385, 193, 193, 193)
    return _openssh_key([b"ssh-rsa", b"\1\0\1", b"\0" + number(384)], [*map(number, sizes)])


def _ecdsa_key(seed: int) -> str:
    number = random.Random(seed).randbytes
    return _openssh_key([b"ecdsa-sha2-nistp256", b"nistp256", b"\4" + number(64)], [number(32)])


OPENSSH_KEYS = [_ed25519_key(1), _rsa_key(2), _ecdsa_key(3)]
"""They open nothing: their bytes are those of a random generator with a known seed."""
OTHER_ED25519_KEY = _ed25519_key(4)
"""Its first line is that of every other one."""


FORMS = [
    ("Anthropic API key", "sk-ant-api03-{url:93}AA"),
    ("Anthropic API key", "sk-ant-oat01-{url:80}AA"),
    ("OpenRouter API key", "sk-or-v1-{hex:64}"),
    ("Langfuse secret key", "sk-lf-{hex:8}-{hex:4}-4{hex:3}-a{hex:3}-{hex:12}"),
    ("OpenAI API key", "sk-proj-{url:74}T3BlbkFJ{url:74}"),
    ("OpenAI API key", "sk-svcacct-{url:60}"),
    ("OpenAI API key", "sk-{word:20}T3BlbkFJ{word:20}"),
    ("API key (sk-…)", "sk-{hex:32}"),
    ("Groq API key", "gsk_{word:52}"),
    ("xAI API key", "xai-{word:80}"),
    ("Google API key", "AIza{url:35}"),
    ("Hugging Face token", "hf_{word:34}"),
    ("Replicate API token", "r8_{word:37}"),
    ("Perplexity API key", "pplx-{word:48}"),
    ("Fireworks API key", "fw_{word:24}"),
    ("NVIDIA API key", "nvapi-{url:64}"),
    ("Cerebras API key", "csk-{small:48}"),
    ("LangSmith API key", "lsv2_pt_{hex:32}_{hex:10}"),
    ("Tavily API key", "tvly-dev-{word:32}"),
    ("Pinecone API key", "pcsk_{word:6}_{word:63}"),
    ("Together API key", "tgp_v1_{url:43}"),
    ("Jina API key", "jina_{url:60}"),
    ("Firecrawl API key", "fc-{hex:32}"),
    ("ElevenLabs API key", "sk_{hex:48}"),
    ("GitHub personal access token", "ghp_{word:36}"),
    ("GitHub fine-grained token", "github_pat_{word:22}_{word:59}"),
    ("GitHub OAuth token", "gho_{word:36}"),
    ("GitHub app token", "ghs_{word:36}"),
    ("GitHub refresh token", "ghr_{word:76}"),
    ("GitLab token", "glpat-{url:20}"),
    ("Bitbucket app password", "ATBB{word:32}"),
    ("Atlassian API token", "ATATT3xFfGF0{url:170}={hex:8}"),
    ("npm access token", "npm_{word:36}"),
    ("PyPI token", "pypi-AgEIcHlwaS5vcmc{url:150}"),
    ("RubyGems API key", "rubygems_{hex:48}"),
    ("crates.io token", "cio{word:32}"),
    ("NuGet API key", "oy2{small:43}"),
    ("Clojars token", "CLOJARS_{hex:60}"),
    ("Docker access token", "dckr_pat_{url:27}"),
    ("Artifactory API key", "AKCp{word:69}"),
    ("Sourcegraph token", "sgp_{hex:16}_{hex:40}"),
    ("Buildkite token", "bkua_{hex:40}"),
    ("CircleCI token", "CCIPAT_{word:22}_{hex:40}"),
    ("Postman API key", "PMAK-{hex:24}-{hex:34}"),
    ("AWS access key", "AKIA{base32:16}"),
    ("AWS session token", "IQoJb3JpZ2lu{base64:300}"),
    ("AWS Bedrock API key", "ABSKQmVkcm9ja{base64:119}"),
    ("Google OAuth client secret", "GOCSPX-{url:28}"),
    ("Google access token", "ya29.{url:150}"),
    ("Google refresh token", "1//0{url:98}"),
    ("Firebase server key", "AAAA{url:7}:APA91b{url:134}"),
    ("Azure storage key", "AccountKey=«{base64:86}==»"),
    ("Azure shared access key", "SharedAccessKey=«{base64:43}=»"),
    ("Azure client secret", "{word:3}8Q~{word:34}"),
    ("Azure AI key", "{word:52}JQQJ99{word:26}"),
    ("Azure shared access signature", "sv=2024-11-04&sig=«{word:40}%2B{word:2}%3D»&se=2027"),
    ("DigitalOcean token", "dop_v1_{hex:64}"),
    ("Alibaba Cloud access key", "LTAI{word:20}"),
    ("Tencent Cloud secret id", "AKID{word:32}"),
    ("Yandex Cloud API key", "AQVN{url:36}"),
    ("Cloudflare origin CA key", "v1.0-{hex:24}-{hex:146}"),
    ("Heroku API key", "HRKU-{url:60}"),
    ("Netlify token", "nfp_{word:36}"),
    ("Vercel token", "vcp_{word:56}"),
    ("Fly.io token", "fo1_{url:43}"),
    ("Pulumi token", "pul-{hex:40}"),
    ("Terraform Cloud token", "{word:14}.atlasv1.{word:67}"),
    ("HashiCorp Vault token", "hvs.{url:90}"),
    ("Doppler token", "dp.st.dev.{word:40}"),
    ("OpenShift token", "sha256~{url:43}"),
    ("Tailscale key", "tskey-auth-{word:12}CNTRL-{word:32}"),
    ("1Password service account token", "ops_eyJ{base64:300}"),
    ("age secret key", "AGE-SECRET-KEY-1{base32:58}"),
    ("Supabase token", "sbp_{hex:40}"),
    ("Supabase secret key", "sb_secret_{url:22}_{word:8}"),
    ("PlanetScale token", "pscale_tkn_{url:43}"),
    ("Databricks token", "dapi{hex:32}"),
    ("Neon API key", "napi_{small:64}"),
    ("Airtable token", "pat{word:14}.{hex:64}"),
    ("Sentry token", "sntrys_eyJ{base64:120}"),
    ("Sentry user token", "sntryu_{hex:64}"),
    ("Grafana token", "glsa_{word:32}_{hex:8}"),
    ("Grafana Cloud token", "glc_eyJ{base64:100}"),
    ("New Relic key", "NRAK-{base32:27}"),
    ("Dynatrace token", "dt0c01.{base32:24}.{base32:64}"),
    ("PostHog personal API key", "phx_{word:43}"),
    ("Snyk token", "snyk_uat.{hex:8}.{url:60}"),
    ("Slack token", "xoxb-{digit:12}-{digit:12}-{word:24}"),
    ("Slack app token", "xapp-1-A{base32:10}-{digit:13}-{hex:64}"),
    ("Slack webhook", "https://hooks.slack.com/services/«T{base32:8}/B{base32:8}/{word:24}»"),
    ("Discord webhook", "https://discord.com/api/webhooks/{digit:18}/«{url:68}»"),
    ("Telegram bot token", "{digit:8}:AA{url:33}"),
    (
        "Microsoft Teams webhook",
        "https://acme.webhook.office.com/webhookb2/«{hex:36}@{hex:36}/IncomingWebhook/{hex:32}»",
    ),
    ("SendGrid API key", "SG.{url:22}.{url:43}"),
    ("Mailgun API key", "key-{hex:32}"),
    ("Mailchimp API key", "{hex:32}-us12"),
    ("Brevo API key", "xkeysib-{hex:64}-{word:16}"),
    ("Resend API key", "re_{word:8}_{word:24}"),
    ("Twilio API key", "SK{hex:32}"),
    ("Notion token", "ntn_{word:46}"),
    ("Linear API key", "lin_api_{word:40}"),
    ("Figma token", "figd_{url:40}"),
    ("Contentful token", "CFPAT-{url:43}"),
    ("Typeform token", "tfp_{word:44}_{word:14}"),
    ("Dropbox token", "sl.u.{url:140}"),
    ("Stripe key", "sk_live_{word:99}"),
    ("Stripe key", "rk_test_{word:24}"),
    ("webhook signing secret", "whsec_{base64:32}"),
    ("Shopify token", "shpat_{hex:32}"),
    ("Square token", "sq0csp-{url:43}"),
    ("Braintree token", "access_token$production${small:16}${hex:32}"),
    ("EasyPost API key", "EZAK{word:54}"),
    ("Shippo token", "shippo_live_{hex:40}"),
    ("Helicone API key", "sk-helicone-{small:7}-{small:7}-{small:7}-{small:7}"),
    ("Google AI Studio key", "AQ.Ab8RN6{url:44}"),
    ("Weights & Biases API key", "wandb_v1_{word:77}"),
    ("Voyage AI API key", "pa-{url:42}7"),
    ("Browserbase API key", "bb_live_{url:27}"),
    ("E2B API key", "e2b_{hex:40}"),
    ("Daytona API key", "dtn_{hex:64}"),
    ("Modal token", "ak-{word:21}7"),
    ("Modal token", "as-{word:9}4{word:12}"),
    ("RunPod API key", "rpa_{base32:44}"),
    ("Apify token", "apify_api_{word:36}"),
    ("Unkey root key", "unkey_{word:24}"),
    ("Mem0 API key", "m0-{word:40}"),
    ("Cursor API key", "key_{hex:64}"),
    ("Kaggle API token", "KGAT_{hex:32}"),
    ("GitLab runner registration token", "GR1348941{url:20}"),
    ("GitLab feature flag token", "glffct-{url:20}"),
    ("Azure DevOps token", "{word:76}AZDO{word:4}"),
    ("Trello token", "ATTA{hex:72}"),
    ("CircleCI project token", "CCIPRJ_{word:22}_{hex:40}"),
    ("JFrog reference token", "cmVmdGtu{word:56}"),
    ("Docker Swarm join token", "SWMTKN-1-{small:50}-{small:25}"),
    ("Docker Swarm unlock key", "SWMKEY-1-{base64:43}"),
    ("SonarQube token", "squ_{hex:40}"),
    ("Packagist token", "packagist_ort_{hex:68}"),
    ("Deno Deploy token", "ddp_{word:36}"),
    ("Prefect API key", "pnu_{word:36}"),
    ("Cody gateway token", "slk_{hex:64}"),
    ("LaunchDarkly key", "sdk-{uuid:1}"),
    ("Statsig server secret", "secret-{word:43}"),
    ("Flagsmith server key", "ser.{word:10}5{word:11}"),
    ("Harness token", "pat.{url:22}.{hex:24}.{word:20}"),
    ("Octopus Deploy API key", "API-{base32:26}"),
    ("Infracost API key", "ico-{word:32}"),
    ("ReadMe API key", "rdme_{small:70}"),
    ("n8n API key", "n8n_api_{hex:80}"),
    ("AWS AppSync API key", "da2-{small:26}"),
    ("Amazon MWS token", "amzn.mws.{uuid:1}"),
    ("Amazon client secret", "amzn1.oa2-cs.v1.{hex:64}"),
    ("Amazon refresh token", "Atzr|{url:180}"),
    ("Google Cloud Storage HMAC key", "GOOG1E{base32:55}"),
    ("Azure Storage account key", "{base64:76}+ASt{base64:6}=="),
    ("Azure Cosmos DB key", "{base64:76}ACDb{base64:6}=="),
    ("Azure Event Hubs key", "{base64:33}+AEh{base64:6}="),
    ("Azure Service Bus key", "{base64:33}+ASb{base64:6}="),
    ("Azure Relay key", "{base64:33}+ARm{base64:6}="),
    ("Azure IoT key", "{base64:33}AIoT{base64:6}="),
    ("Azure Cache for Redis key", "{base64:33}AzCa{base64:6}="),
    ("Azure Container Registry key", "{base64:42}+ACRC{base64:5}"),
    ("Azure Functions key", "{url:44}AzFu{url:5}Q=="),
    ("Azure AI Search key", "{word:42}AzSeB{word:5}"),
    ("Yandex OAuth token", "y0_{url:55}"),
    ("Yandex IAM token", "t1.{url:90}.{url:86}"),
    ("Baidu Cloud access key", "ALTAK{word:21}"),
    ("Volcengine access key", "AKLT{word:44}"),
    ("DigitalOcean Spaces key", "DO00{base32:16}"),
    ("Scaleway access key", "SCW{base32:9}4{base32:7}"),
    ("Exoscale API key", "EXO{hex:24}"),
    ("UpCloud token", "ucat_{base32:26}"),
    ("Render API key", "rnd_{word:32}"),
    ("Cloudflare tunnel token", "eyJhIjoi{url:180}"),
    ("Vercel Blob token", "vercel_blob_rw_{word:16}_{word:30}"),
    ("1Password secret key", "A3-{base32:6}-{base32:6}-{base32:5}-{base32:5}-{base32:5}-{base32:5}"),
    ("HashiCorp Boundary token", "at_{word:10}_s1{word:90}"),
    ("NetBird token", "nbp_{word:36}"),
    ("JumpCloud API key", "jca_{word:36}"),
    ("Akamai token", "akab-{small:16}-{small:16}"),
    ("Rancher token", "token-{small:5}:{small:54}"),
    ("K3s join token", "K10{hex:64}::server:{hex:32}"),
    ("minisign secret key", "RWRTY0Iy{base64:200}="),
    ("Xata API key", "xau_{word:40}"),
    ("CockroachDB API key", "CCDB1_{word:22}_{word:40}"),
    ("Aiven password", "AVNS_{url:18}7"),
    ("MongoDB Atlas secret", "mdb_sa_sk_{url:40}"),
    ("ClickHouse Cloud secret", "4b1dK{word:37}"),
    ("Databricks OAuth secret", "dose{hex:32}"),
    ("Confluent Cloud secret", "cflt{base64:60}"),
    ("Elastic Cloud API key", "essu_{base64:80}=="),
    ("WooCommerce key", "cs_{hex:40}"),
    ("Grafana API key", "eyJrIjoi{word:100}="),
    ("Honeycomb ingest key", "hcaik_{small:58}"),
    ("Axiom token", "xaat-{uuid:1}"),
    ("Checkly API key", "cu_{hex:32}"),
    ("Segment token", "sgp_{word:63}Z"),
    ("Brevo SMTP key", "xsmtpsib-{hex:64}-{word:16}"),
    ("Mandrill API key", "md-{word:8}6{word:13}"),
    ("MailerSend token", "mlsn.{hex:64}"),
    ("Klaviyo private key", "pk_{hex:34}"),
    ("ClickUp token", "pk_{digit:8}_{base32:32}"),
    ("Intercom token", "dG9rO{base64:55}="),
    ("HubSpot private app token", "pat-na1-{uuid:1}"),
    ("Salesforce access token", "00D{word:12}!{word:96}"),
    ("Zoho token", "1000.{hex:32}.{hex:32}"),
    ("OneSignal API key", "os_v2_app_{small:103}"),
    ("PubNub secret key", "sec-c-{word:48}"),
    ("Zapier webhook", "https://hooks.zapier.com/hooks/catch/«{digit:7}/{small:7}»/"),
    ("Make webhook", "https://hook.eu1.make.com/«{small:32}»"),
    ("IFTTT webhook key", "https://maker.ifttt.com/trigger/door/with/key/«{url:43}»"),
    ("Frame.io token", "fio-u-{url:64}"),
    ("Adobe client secret", "p8e-{url:31}7"),
    ("Wix API key", "IST.eyJ{url:60}.eyJ{url:200}.{url:80}"),
    ("LinkedIn client secret", "WPL_AP1.{word:16}.{word:6}=="),
    ("Pinterest token", "pina_{base32:100}"),
    ("Instagram token", "IGQV{word:150}"),
    ("Mapbox secret token", "sk.eyJ{url:80}.{url:22}"),
    ("Square access token", "EAAA{url:59}7"),
    ("Facebook access token", "EAAC{word:160}"),
    ("Plaid access token", "access-production-{uuid:1}"),
    ("Lob API key", "live_{hex:35}"),
    ("Mollie API key", "live_{word:20}3{word:9}"),
    ("GoCardless token", "live_{word:20}-4{word:18}"),
    ("Flutterwave secret key", "FLWSECK-{small:32}-X"),
    ("Razorpay key", "rzp_live_{word:14}"),
    ("Paddle API key", "pdl_live_apikey_{small:26}_{word:22}_{word:3}"),
    ("Polar token", "polar_oat_{word:43}"),
    ("Duffel token", "duffel_live_{url:43}"),
    ("Stytch secret", "secret-live-{url:36}="),
    ("Onfido API token", "api_live.{url:11}.{url:32}"),
    ("QuickNode API key", "QN_{hex:32}"),
    ("extended private key of a wallet", "xprv{base58:107}"),
    ("Nostr secret key", "nsec1{bech32:58}"),
    ("OpenVPN static key", "-----BEGIN OpenVPN Static key V1-----\n«{hex:32}\n{hex:32}\n{hex:32}»\n"),
    ("JSON web token", "eyJ{url:33}.eyJ{url:90}.{url:43}"),
    ("private key", "-----BEGIN RSA PRIVATE KEY-----\n«{base64:64}\n{base64:64}»\n"),
    ("private key", "-----BEGIN PRIVATE KEY-----\n«MC4CAQAwBQYDK2VwBCIEI{base64:43}»\n"),
    ("private key of PuTTY", "Private-Lines: 14\n«{base64:64}»\n"),
    ("value of CLIENT_SECRET", "CLIENT_SECRET=«{url:40}»"),
    ("value of APP_KEY", "APP_KEY=«base64:{base64:43}=»"),
    ("value of client-key-data", "client-key-data: «{base64:60}»"),
    ("value of PrivateKey", "PrivateKey = «{base64:43}=»"),
    ("value of heroku_api_key", 'heroku_api_key: "«{uuid:1}»"'),
    ("value of ALGOLIA_ADMIN_KEY", "ALGOLIA_ADMIN_KEY=«{hex:32}»"),
    ("value of DD_API_KEY", "DD_API_KEY=«{hex:32}»"),
    ("value of COHERE_API_KEY", "COHERE_API_KEY=«{word:40}»"),
    ("value of CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_TOKEN=«{url:40}»"),
    ("value of CODECOV_TOKEN", "CODECOV_TOKEN=«{uuid:1}»"),
    ("value of SPLUNK_HEC_TOKEN", "SPLUNK_HEC_TOKEN=«{uuid:1}»"),
    ("value of NGROK_AUTHTOKEN", "NGROK_AUTHTOKEN=«2{word:26}_{word:21}»"),
    ("value of TWILIO_AUTH_TOKEN", "TWILIO_AUTH_TOKEN=«{hex:32}»"),
    ("value of SECRET_KEY_BASE", "SECRET_KEY_BASE=«{hex:128}»"),
    ("value of NEXTAUTH_SECRET", "NEXTAUTH_SECRET=«{base64:43}=»"),
    ("value of asana_access_token", "asana_access_token = '«1/{digit:16}:{hex:32}»'"),
    ("value of oauth_token_secret", 'oauth_token_secret="«{word:45}»"'),
    ("value of Pwd", "Server=db;User Id=sa;Pwd=«{word:8}!9x»;"),
    ("value of AZURE_CLIENT_SECRET", "AZURE_CLIENT_SECRET=«{word:34}»"),
    ("value of SUPABASE_SERVICE_ROLE_KEY", "SUPABASE_SERVICE_ROLE_KEY=«{word:40}»"),
    ("authorization header", "Authorization: SSWS «00{url:40}»"),
    ("authorization header", "Authorization: Bot «{url:24}.{url:6}.{url:38}»"),
    ("value of AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY=«{base64:40}»"),
    ("value of aws_secret_access_key", "aws_secret_access_key = «{word:40}»"),
    ("value of DB_PASSWORD", "DB_PASSWORD=«{small:4}4b{small:4}»"),
    ("value of MISTRAL_API_KEY", "export MISTRAL_API_KEY=«{word:32}»"),
    ("value of client_secret", 'client_secret = "«{word:32}»"'),
    ("value of apiKey", "{ apiKey: '«{hex:40}»' }"),
    ("value of x-api-key", "x-api-key: «{word:40}»"),
    ("value of authToken", "//registry.example.com/:_authToken=«{hex:36}»"),
    ("value of password", 'password = "«Tr{word:6}&3»"'),
    ("value of Passphrase", "Passphrase: «c0{small:5}-h0rse!»"),
    ("value of password", "<password>«K8s!{word:8}»</password>"),
    ("bearer token", "Authorization: Bearer «{url:40}»"),
    ("authorization header", "Authorization: Basic «dXNl{base64:23}8=»"),
    ("password in an address", "postgres://app:«s3cr3t-{word:6}»@db.internal:5432/app"),
    ("password in an address", "redis://:«{word:24}»@cache:6379/0"),
    ("value of spring.datasource.password", "spring.datasource.password=«{word:17}7»"),
    ("value of db_password", "db_password: «{word:9}4{word:8}»"),
    ("value of password", "password = «{word:9}4{word:8}»"),
    ("value of PASSWORD", "PASSWORD: «{word:9}4{word:8}»"),
    ("value of DB_PASSWORD", "DB_PASSWORD='«Tr0({word:4})dor$3,{word:9}»'"),
    ("value of DB_PASSWORD", "DB_PASSWORD=«p@$${word:4},{word:9}7»"),
    ("value of refresh_token", '{"refresh_token": "«{url:600}»"}'),
    ("value of REFRESH_TOKEN", "REFRESH_TOKEN=«{url:600}»"),
    ("password of a command", "curl -u bob:«{word:8}pw1» https://host/"),
    ("password of a command", 'curl --user "bob:«{word:8} {word:8}»" https://host/'),
    ("password of a command", "curl -sSu bob:«{word:8}pw1» https://host/"),
    ("password of a command", "curl \\\n  --proxy-user=bob:«{word:8}pw1» https://host/"),
    ("password of a command", "curl -s -u admin:«h7-{word:8}» https://host/"),
    ("password of a .netrc", "machine host login me password «{word:8}n3t»"),
]
