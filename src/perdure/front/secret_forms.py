"""The forms that tokens of services have, each with the few letters that it cannot be without.

Data, and no code but what groups it. A row is a kind in words for people, those letters (several, apart by
blanks, if the rest is the same) and an expression for what comes after them. Lengths are what the services
give out or a little less: a token whose end was cut off is a secret still. Every repetition has a bound,
so that the time is linear in the text. Rows with the same letters are tried in their order.
"""

from __future__ import annotations

from typing import NamedTuple


class Form(NamedTuple):
    kind: str
    stems: str
    after: str
    before: str = ""
    """What characters are before those letters, if they stand in the middle."""
    back: int = 0
    """And how many."""


_HEX = "[0-9a-f]"
_LETTERS = "[A-Za-z0-9]"
_BASE64 = "[A-Za-z0-9+/]"

_ALL = (
    # --- language models
    Form("Anthropic API key", "sk-", r"ant-[\w-]{20,200}"),
    Form("OpenRouter API key", "sk-", rf"or-(?:v1-)?{_HEX}{{48,64}}"),
    Form("Langfuse secret key", "sk-", rf"lf-{_HEX}{{8}}-[\w-]{{20,40}}"),
    Form("OpenAI API key", "sk-", r"(?:proj|svcacct|admin|None)-[\w-]{20,200}"),
    Form("OpenAI API key", "sk-", rf"{_LETTERS}{{20}}T3BlbkFJ{_LETTERS}{{20}}"),
    Form("API key (sk-…)", "sk-", rf"{_LETTERS}{{30,100}}"),
    Form("Groq API key", "gsk_", rf"{_LETTERS}{{40,60}}"),
    Form("xAI API key", "xai-", rf"{_LETTERS}{{60,100}}"),
    Form("Google API key", "AIza", r"[\w-]{35}"),
    Form("Hugging Face token", "hf_ api_org_", rf"{_LETTERS}{{34}}(?![\w-])"),
    Form("Replicate API token", "r8_", rf"{_LETTERS}{{37}}(?![\w-])"),
    Form("Perplexity API key", "pplx-", rf"{_LETTERS}{{40,64}}"),
    Form("Fireworks API key", "fw_", rf"{_LETTERS}{{22,24}}(?![\w-])"),
    Form("NVIDIA API key", "nvapi-", r"[\w-]{50,80}"),
    Form("Cerebras API key", "csk-", rf"{_LETTERS}{{40,60}}"),
    Form("LangSmith API key", "lsv2_", rf"(?:pt|sk)_{_HEX}{{32}}_{_HEX}{{10}}"),
    Form("Tavily API key", "tvly-", r"[\w-]{24,60}"),
    Form("Pinecone API key", "pcsk_", r"\w{40,90}"),
    Form("Together API key", "tgp_v1_", r"[\w-]{40,60}"),
    Form("Jina API key", "jina_", r"[\w-]{50,80}"),
    Form("Firecrawl API key", "fc-", rf"{_HEX}{{32}}"),
    Form("ElevenLabs API key", "sk_", rf"{_HEX}{{48}}"),
    # --- code and packages
    Form("GitHub personal access token", "ghp_", rf"{_LETTERS}{{36,255}}"),
    Form("GitHub fine-grained token", "github_pat_", r"\w{60,255}"),
    Form("GitHub OAuth token", "gho_", rf"{_LETTERS}{{36,255}}"),
    Form("GitHub app token", "ghu_ ghs_", rf"{_LETTERS}{{36,255}}"),
    Form("GitHub refresh token", "ghr_", rf"{_LETTERS}{{36,255}}"),
    Form(
        "GitLab token",
        "glpat- gldt- glrt- glptt- glcbt- glft- glsoat- glimt- glagent- gloas-",
        r"[\w.-]{20,80}",
    ),
    Form("Bitbucket app password", "ATBB", rf"{_LETTERS}{{28,40}}"),
    Form("Atlassian API token", "ATATT3 ATCTT3", r"[\w=-]{50,250}"),
    Form("npm access token", "npm_", rf"{_LETTERS}{{36,40}}"),
    Form("PyPI token", "pypi-AgE", r"[\w-]{50,250}"),
    Form("RubyGems API key", "rubygems_", rf"{_HEX}{{48}}"),
    Form("crates.io token", "cio", rf"{_LETTERS}{{32}}(?!{_LETTERS})"),
    Form("NuGet API key", "oy2", r"[a-z0-9]{43}(?![a-z0-9])"),
    Form("Clojars token", "CLOJARS_", rf"{_HEX}{{60}}"),
    Form("Docker access token", "dckr_pat_ dckr_oat_", r"[\w-]{24,60}"),
    Form("Artifactory API key", "AKCp", rf"{_LETTERS}{{60,80}}"),
    Form("Sourcegraph token", "sgp_", rf"(?:{_HEX}{{16}}_|local_)?{_HEX}{{40}}"),
    Form("Buildkite token", "bkua_", rf"{_HEX}{{40}}"),
    Form("CircleCI token", "CCIPAT_", rf"{_LETTERS}{{20,24}}_{_HEX}{{40}}"),
    Form("Postman API key", "PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    # --- clouds and hosts
    Form("AWS access key", "AKIA ASIA ABIA ACCA", r"[A-Z2-7]{16}(?![A-Z0-9])"),
    Form("AWS session token", "IQoJb3JpZ2lu", rf"{_BASE64}{{80,400}}"),
    Form("AWS Bedrock API key", "ABSKQmVkcm9ja", rf"{_BASE64}{{80,160}}"),
    Form("Google OAuth client secret", "GOCSPX-", r"[\w-]{24,40}"),
    Form("Google access token", "ya29.", r"[\w-]{40,400}"),
    Form("Google refresh token", "1//0", r"[\w-]{40,120}"),
    Form("Firebase server key", ":APA91b", r"[\w-]{100,200}", r"[\w-]", 11),
    Form("Azure storage key", "AccountKey=", rf"({_BASE64}{{80,86}}={{0,2}})"),
    Form("Azure shared access key", "SharedAccessKey=", rf"({_BASE64}{{43}}=?)"),
    Form("Azure client secret", "Q~", r"[\w~.-]{31,34}", r"[\w~.]", 4),
    Form("Azure AI key", "JQQJ99", rf"{_LETTERS}{{20,30}}", _LETTERS, 52),
    Form("Azure shared access signature", "sig=", r"([\w/+-]{20,43}%[\w/+%-]{4,60}|[\w/+-]{43}=)"),
    Form("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", rf"{_HEX}{{64}}"),
    Form("Alibaba Cloud access key", "LTAI", rf"{_LETTERS}{{16,24}}(?!{_LETTERS})"),
    Form("Tencent Cloud secret id", "AKID", rf"{_LETTERS}{{32}}(?!{_LETTERS})"),
    Form("Yandex Cloud API key", "AQVN", r"[\w-]{35,40}"),
    Form("Cloudflare origin CA key", "v1.0-", rf"{_HEX}{{24}}-{_HEX}{{140,146}}"),
    Form("Heroku API key", "HRKU-", r"[\w-]{36,70}"),
    Form("Netlify token", "nfp_", rf"{_LETTERS}{{36,44}}"),
    Form("Vercel token", "vcp_ vca_ vck_ vcr_ vci_", rf"{_LETTERS}{{24,80}}"),
    Form("Fly.io token", "fo1_ fm1r_ fm1a_ fm2_", r"[\w/+=-]{40,400}"),
    Form("Pulumi token", "pul-", rf"{_HEX}{{40}}"),
    Form("Terraform Cloud token", ".atlasv1.", r"[\w=-]{50,80}", _LETTERS, 14),
    Form("HashiCorp Vault token", "hvs. hvb. hvr.", r"[\w-]{24,200}"),
    Form("Doppler token", "dp.", rf"(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{{2,35}}\.)?{_LETTERS}{{40,44}}"),
    Form("OpenShift token", "sha256~", r"[\w-]{43}"),
    Form("Tailscale key", "tskey-", r"[a-z]{3,12}-[\w-]{16,60}"),
    Form("1Password service account token", "ops_eyJ", r"[\w+/=-]{100,400}"),
    Form("age secret key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    # --- data
    Form("Supabase token", "sbp_", rf"(?:v\d_)?{_HEX}{{40}}"),
    Form("Supabase secret key", "sb_secret_", r"[\w-]{20,60}"),
    Form("PlanetScale token", "pscale_", r"(?:tkn|pw|oauth)_[\w.=-]{32,64}"),
    Form("Databricks token", "dapi", rf"{_HEX}{{32}}"),
    Form("Neon API key", "napi_", r"[a-z0-9]{40,80}"),
    Form("Airtable token", "pat", rf"{_LETTERS}{{14}}\.{_HEX}{{64}}"),
    # --- watching over programs
    Form("Sentry token", "sntrys_", r"eyJ[\w+/=-]{60,400}"),
    Form("Sentry user token", "sntryu_", rf"{_HEX}{{64}}"),
    Form("Grafana token", "glsa_", rf"{_LETTERS}{{32}}_{_HEX}{{8}}"),
    Form("Grafana Cloud token", "glc_", r"eyJ[\w+/=-]{40,400}"),
    Form("New Relic key", "NRAK- NRII- NRJS-", r"[\w-]{19,40}"),
    Form("Dynatrace token", "dt0", r"[a-z]\d\d\.[A-Z2-7]{24}\.[A-Z2-7]{64}"),
    Form("PostHog personal API key", "phx_", rf"{_LETTERS}{{40,60}}"),
    Form("Snyk token", "snyk_uat.", r"[\w.-]{30,200}"),
    # --- messages and work
    Form("Slack token", "xox", r"[abeoprs][-.][\w.-]{20,250}"),
    Form("Slack app token", "xapp-", r"\d-[\w-]{30,200}"),
    Form("Slack webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/([\w/-]{30,120})"),
    Form("Discord webhook", "api/webhooks/", r"\d{17,20}/([\w-]{50,80})"),
    Form("Telegram bot token", ":AA", r"[\w-]{32,34}(?![\w-])", r"\d", 8),
    Form("Microsoft Teams webhook", ".webhook.office.com/", r"(?:webhookb2/)?([\w@/-]{70,200})", r"[\w-]", 1),
    Form("SendGrid API key", "SG.", r"[\w-]{20,24}\.[\w-]{40,50}"),
    Form("Mailgun API key", "key-", rf"{_HEX}{{32}}(?!{_HEX})"),
    Form("Mailchimp API key", "-us", r"\d{1,2}(?!\w)", _HEX, 32),
    Form("Brevo API key", "xkeysib-", rf"{_HEX}{{64}}-{_LETTERS}{{16}}"),
    Form("Resend API key", "re_", rf"{_LETTERS}{{8}}_{_LETTERS}{{24}}"),
    Form("Twilio API key", "SK", rf"{_HEX}{{32}}(?!{_LETTERS})"),
    Form("Notion token", "ntn_ secret_", rf"{_LETTERS}{{40,50}}"),
    Form("Linear API key", "lin_", rf"(?:api|oauth)_{_LETTERS}{{40,64}}"),
    Form("Figma token", "figd_", r"[\w-]{40,60}"),
    Form("Contentful token", "CFPAT-", r"[\w-]{43}"),
    Form("Typeform token", "tfp_", r"[\w.-]{40,80}"),
    Form("Dropbox token", "sl.", r"(?:u\.)?[\w-]{130,400}"),
    # --- shops and payment
    Form("Stripe key", "sk_live_ rk_live_ sk_test_ rk_test_", rf"{_LETTERS}{{20,250}}"),
    Form("webhook signing secret", "whsec_", rf"{_BASE64}{{24,80}}"),
    Form("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[0-9A-Fa-f]{32}"),
    Form("Square token", "sq0atp- sq0csp-", r"[\w-]{22,43}"),
    Form("Braintree token", "access_token$", rf"(?:production|sandbox)\$[a-z0-9]{{16}}\${_HEX}{{32}}"),
    Form("EasyPost API key", "EZAK", rf"{_LETTERS}{{54}}"),
    Form("Shippo token", "shippo_live_", rf"{_HEX}{{40}}"),
    # --- wherever they are used
    Form("JSON web token", "eyJ", r"[\w-]{10,400}+\.eyJ[\w-]{10,4000}+\.[\w-]{20,1000}"),
    Form("private key", "PRIVATE KEY", rf"(?: BLOCK)?-----[\s\S]{{0,150}}?(?<!\\)({_BASE64}{{60}})"),
    Form("private key of PuTTY", "Private-Lines:", rf" \d{{1,3}}[\s\S]{{1,8}}?(?<!\\)({_BASE64}{{60}})"),
)

FORMS: dict[str, list[Form]] = {}
for _form in _ALL:
    for _stem in _form.stems.split():
        FORMS.setdefault(_stem, []).append(_form)
