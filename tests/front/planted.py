"""Secrets that are none: one of each kind, in the form that its service gives out.

They are put together at run time, because a scanner of this repository is right to stop at one in a source
file. In a form, `{hex:32}` is 32 characters of that alphabet.
"""

from __future__ import annotations

import random
import re
import string
from typing import NamedTuple

_ALPHABETS = {
    "hex": "0123456789abcdef",
    "word": string.ascii_letters + string.digits,
    "url": string.ascii_letters + string.digits + "_-",
    "base64": string.ascii_letters + string.digits + "+/",
    "small": string.ascii_lowercase + string.digits,
    "base32": string.ascii_uppercase + "234567",
    "digit": string.digits,
}


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
    return made


def _filled(form: str) -> str:
    chosen = random.Random(form)

    def characters(part: re.Match[str]) -> str:
        return "".join(chosen.choices(_ALPHABETS[part[1]], k=int(part[2])))

    return re.sub(r"\{(\w+):(\d+)\}", characters, form)


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
    ("JSON web token", "eyJ{url:33}.eyJ{url:90}.{url:43}"),
    ("private key", "-----BEGIN RSA PRIVATE KEY-----\n«{base64:60}»{base64:4}\n{base64:64}\n"),
    ("private key", "-----BEGIN OPENSSH PRIVATE KEY-----\n«b3BlbnNz{base64:52}»\n{base64:60}\n"),
    ("private key of PuTTY", "Private-Lines: 14\n«{base64:60}»{base64:4}\n"),
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
    ("password of a command", "curl -s -u admin:«h7-{word:8}» https://host/"),
    ("password of a .netrc", "machine host login me password «{word:8}n3t»"),
]
