"""Variables as people have them: canaries, each of which has to be kept from others, and ordinary ones, each
of which some command needs. Every canary in `SECRET` has `MARK` in it, so that one search finds any."""

import base64

MARK = "Qz7cAnArYx4"
KEY_IN_USE = f"3f9a1c77{MARK}"
SHORT_KEY_IN_USE = "kR7q2"
PROVIDERS = ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "MY_VENDOR"]
"""The variables that keys of providers come from, by the names that their adapters read."""


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


BY_NAME = dict.fromkeys(
    [
        *PROVIDERS,
        *("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "GH_TOKEN"),
        *("HF_TOKEN", "NPM_TOKEN", "npm_config__authToken", "DJANGO_SECRET_KEY", "SECRET_KEY_BASE", "KEY"),
        *("PGPASSWORD", "MYSQL_PWD", "DB_PASS", "SSHPASS", "MYSQL_ROOT_PASSWORD", "ENC_PASSPHRASE"),
        *("LDAP_PASSWD", "GOOGLE_APPLICATION_CREDENTIALS", "DOCKER_AUTH_CONFIG", "OAUTH2_CLIENT"),
        *("HTTP_AUTHORIZATION", "AZURE_DEVOPS_EXT_PAT", "SLACK_WEBHOOK_URL", "SESSION_COOKIE", "SERVICE_JWT"),
        *("StripeApiKey", "DB_PW", "SMTP_PW", "DB_CREDS", "MY_PASSCODE", "TOTP_SEED", "WALLET_SEED_PHRASE"),
        *("AZURE_SAS", "APIKEY", "MYAPP_APIKEY", "X_ACCESSTOKEN", "S3KEY", "API_KEYS", "BOT_TOKENS"),
        *(
            "openai_api_key",
            "VAULT_TOK",
            "vault_tok",
            "ciTok",
            "SLACK_BOTTOK",
            "ENCRYPTION",
            "DATA_ENCRYPTION",
        ),
        *(
            "TWILIO_SID",
            "TWILIO_ACCOUNT_SID",
            "connect_sid",
            "PHPSESSID",
            "KUBECONFIG_DATA",
            "KUBECONFIG_B64",
        ),
        *(
            "PW",
            "SAS",
            "PASSWORD_SALT",
            "DEVICE_PIN",
            "HASH_PEPPER",
            "WEBHOOK_HMAC",
            "DB_CRED",
            "SNAP_COOKIE",
        ),
    ],
    f"canary {MARK}",  # which tells of nothing by itself
)
SHORT_BY_NAME = {
    "CI_TOK": "x7",
    "APP_SID": "a1",
    "GH_PAT": "p",
    "MY_ENCRYPTION": "hunter2",
    "SMTP_PW": "pw",
    "MY_PIN": "4711",
    "MAIL_ENCRYPTION": "$3cret!",
    "DB_ENCRYPTION": "20240815",
    "IMG_SID": "/9j4AAQSkZ==",
}
"""Too short to be searched for."""
BY_VALUE = {
    "DATABASE_URL": f"postgres://app:{MARK}@db.example/app",
    "CACHE": f"redis://:{MARK}@cache:6379/0",
    "PIP_EXTRA_INDEX_URL": f"https://one.example/simple https://{MARK}@two.example/simple",
    "HTTPS_PROXY": f"user:{MARK}@proxy.example:3128",
    "STORAGE": f"DefaultEndpointsProtocol=https;AccountKey={MARK}",
    "BUS": f"Endpoint=sb://bus.example/;SharedAccessKeyName=Root;SharedAccessKey={MARK}=",
    "JAVA_OPTS": f"-Xmx1g -Djavax.net.ssl.keyStorePassword={MARK}",
    "DEPLOY": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{MARK}",
    "SERVICE_ACCOUNT": f'{{"type": "service_account", "private_key": "{MARK}"}}',
    "KUBE": f"users:\n- user:\n    client-key-data: {MARK}",
    "CLUSTER": f"apiVersion: v1\nusers:\n- name: u\n  user:\n    token: {MARK}",
    "OPENAI": f"sk-proj-{MARK}canarycanary",
    "OPENAI_SHORT": f"sk-{MARK}",
    "GIT_THING": f"ghp_{MARK}canary00",
    "GIT_SHORT": f"ghp_{MARK}",
    "LAB": f"glpat-{MARK}canary00",
    "CHAT": f"xoxb-{MARK}-canary00",
    "PAYMENTS": f"sk_test_{MARK}",
    "SHOP": f"shpat_{MARK}",
    "IMAGES": f"dckr_pat_{MARK}",
    "HASHICORP": f"hvs.{MARK}",
    "MAILER": f"SG.{MARK}canary00.{MARK}canary00",
    "CALL": f"curl -H 'Authorization: Basic {MARK}'",
    "CALL_2": f"Bearer {MARK}",
    "ENDPOINT": f"https://api.example/?token={MARK}",
    "BLOB_URL": f"https://store.example/a?sv=2022&sig={MARK}",
    "HOOK": f"https://hooks.slack.com/services/T0/B0/{MARK}",
    "CLAIMS": f"eyJhbGciOiJI.eyJzdWIiOiIx.{MARK}",
    "NPMRC": f"//registry.example/:_authToken={MARK}",
    "ANY": KEY_IN_USE,
    "HEADERS": f"X-Canary: {KEY_IN_USE}",
    # Nobody would write these by hand.
    "SERVICE": f"wJ8rXUtnF3MI/K7M{MARK}bPxRfi+9K",
    "BW_SESSION": f"5PBYGU+5yt3RHcCjoeJKx/wByU34vokGRZjXpSH7Y{MARK}==",
    "DIRENV_DIFF": f"eJzsVFFv2jAQ_isoz9{MARK}6G02gQ7Rs",
    "OPTIONS": f"--user=me --session=aB3dE5fG7hJ9{MARK} --quiet",
    "LICENCE": f"9GhT4kLm2P{MARK}vB6nQ8",
}
UNMARKED = {
    # What is encoded, all in capitals or in small letters, cannot have the mark in it.
    "CERT_PEM": base64_of("-----BEGIN RSA PRIVATE KEY-----\ncanary"),
    "REGISTRY": base64_of('{"auths": {"r.example": {"auth": "canary"}}}'),
    "TLS_DATA": base64_of("some bytes of a canary that are none of your business"),
    "SIGNER_P12": "MIIKYQIBAzCCCiMGCSqGSIb3DQEHAaCCChQEggoQMIIKDDCC",
    "AMAZON": "AKIAIOSFODNN7EXAMPLE",
    "CLIENT": "AC0123456789abcdef0123456789abcdef",
    "PLATFORM": "q7w2hzk94mvt1x8yb3ncd6rj5pgls0fa",
    "REMOTE_THING": "7HZK94MVT1X8YB3NCD6RJ5PGLS0F2QWE",
    "SHORT": SHORT_KEY_IN_USE,
}
SECRET = BY_NAME | BY_VALUE

_NIX = "/nix/store/0c5cg3mb8zcm4yqjxbz8kvqlprdw3y2n"
ORDINARY = {
    # The shell, the session and the terminal.
    **{"PATH": "/usr/bin:/bin", "HOME": "/home/u", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "USER": "u"},
    **{
        "LOGNAME": "u",
        "SHELL": "/bin/zsh",
        "SHLVL": "2",
        "OLDPWD": "/tmp",
        "TZ": "Europe/Berlin",
        "_": "/usr/bin/env",
    },
    **{"MAIL": "/var/mail/u", "HOSTNAME": "web-7d4b9c6f5-x2x9k", "HISTFILE": "/home/u/.zsh_history"},
    **{
        "PS1": r"\[\e]0;\u@\h: \w\a\]${debian_chroot:+($debian_chroot)}\u@\h:\w\$ ",
        "PROMPT_COMMAND": "__vte_prompt",
    },
    **{"LS_COLORS": "rs=0:di=01;34:ln=01;36:*.tar=01;31:*.jpg=01;35", "LSCOLORS": "Gxfxcxdxbxegedabagacad"},
    **{
        "LESSOPEN": "| /usr/bin/lesspipe %s",
        "LESSCLOSE": "/usr/bin/lesspipe %s %s",
        "LESS_TERMCAP_mb": "\x1b[1;31m",
    },
    **{
        "EDITOR": "vi",
        "VISUAL": "code --wait",
        "BROWSER": "firefox",
        "COLORTERM": "truecolor",
        "CLICOLOR": "1",
    },
    **{
        "TERM_PROGRAM": "iTerm.app",
        "TERM_PROGRAM_VERSION": "3.4.23",
        "LC_TERMINAL": "iTerm2",
        "COLORFGBG": "7;0",
    },
    **{"TERM_SESSION_ID": "w0t0p0:6F9619FF-8B86-D011-B42D-00CF4FC964FF", "ITERM_PROFILE": "Default"},
    **{
        "ITERM_SESSION_ID": "w0t1p0:6F9619FF-8B86-D011-B42D-00CF4FC964FF",
        "WT_PROFILE_ID": "{61c54bbd-c2c6-5271-96e7-009a87ff44bf}",
    },
    **{
        "WT_SESSION": "5a4b2b5c-8f1e-4e0a-9d3c-1c2b3a4d5e6f",
        "WSLENV": "WT_SESSION:WT_PROFILE_ID",
        "WSL_DISTRO_NAME": "Ubuntu-22.04",
    },
    **{
        "TMUX": "/tmp/tmux-1000/default,1234,0",
        "TMUX_PANE": "%0",
        "STY": "1234.pts-0.host",
        "KITTY_WINDOW_ID": "1",
    },
    **{
        "GNOME_TERMINAL_SCREEN": "/org/gnome/Terminal/screen/6f9619ff_8b86_d011_b42d_00cf4fc964ff",
        "VTE_VERSION": "6800",
    },
    **{"KONSOLE_DBUS_SERVICE": ":1.123", "ALACRITTY_SOCKET": "/run/user/1000/Alacritty-:0-1234.sock"},
    **{
        "SSH_AUTH_SOCK": "/private/tmp/com.apple.launchd.AbC123dEfG/Listeners",
        "SSH_CONNECTION": "10.0.0.1 54321 10.0.0.2 22",
    },
    **{
        "SSH_TTY": "/dev/pts/0",
        "SSH_AGENT_PID": "1234",
        "SSH_ASKPASS": "/usr/bin/ask",
        "GPG_TTY": "/dev/pts/0",
    },
    **{"GPG_AGENT_INFO": "/run/user/1000/gnupg/S.gpg-agent:0:1", "PASSWORD_STORE_DIR": "/home/u/.pw"},
    **{
        "DISPLAY": ":0",
        "WAYLAND_DISPLAY": "wayland-0",
        "XAUTHORITY": "/home/u/.Xauthority",
        "XMODIFIERS": "@im=ibus",
    },
    **{
        "XDG_RUNTIME_DIR": "/run/user/1000",
        "XDG_SESSION_ID": "c2",
        "XDG_SESSION_TYPE": "wayland",
        "XDG_DATA_HOME": "/home/u/.local/share",
    },
    **{
        "XDG_DATA_DIRS": "/usr/local/share:/usr/share:/var/lib/snapd/desktop",
        "XDG_CURRENT_DESKTOP": "ubuntu:GNOME",
    },
    **{
        "DBUS_SESSION_BUS_ADDRESS": "unix:abstract=/tmp/dbus-Ab3dE5fG7h,guid=9f2d4c0c1a2b3c4d5e6f708192a3b4c5"
    },
    **{
        "SESSION_MANAGER": "local/host:@/tmp/.ICE-unix/1234,unix/host:/tmp/.ICE-unix/1234",
        "DESKTOP_SESSION": "gnome",
    },
    **{
        "GDMSESSION": "ubuntu",
        "GNOME_KEYRING_CONTROL": "/run/keyring",
        "GTK_MODULES": "gail:atk-bridge",
        "QT_SCALE_FACTOR": "2",
    },
    **{
        "INVOCATION_ID": "9f2d4c0c1a2b3c4d5e6f708192a3b4c5",
        "JOURNAL_STREAM": "8:123456",
        "SYSTEMD_EXEC_PID": "1234",
    },
    **{
        "MEMORY_PRESSURE_WRITE": "c29tZSAyMDAwMDAgMjAwMDAwMAA=",
        "MEMORY_PRESSURE_WATCH": "/sys/fs/cgroup/a/memory.pressure",
    },
    **{
        "__CF_USER_TEXT_ENCODING": "0x1F5:0x0:0x0",
        "SECURITYSESSIONID": "186a6",
        "__CFBundleIdentifier": "com.googlecode.iterm2",
    },
    **{"KEYBOARD_LAYOUT": "de", "XKB_KEYMAP": "us", "KEYTIMEOUT": "1", "MONKEY": "yes", "HOTKEY_DAEMON": "x"},
    **{"SNAP_DATA": "/var/snap/x/1", "SNAP_REVISION": "1234", "FLATPAK_ID": "org.example.App"},
    **{
        "VSCODE_GIT_IPC_HANDLE": "/run/user/1000/vscode-git-d4fc1a9d2a.sock",
        "VSCODE_NONCE": "5a4b2b5c-8f1e-4e0a-9d3c-1c2b3a4d5e6f",
    },
    **{
        "VSCODE_GIT_ASKPASS_NODE": "/usr/share/code/code",
        "ELECTRON_RUN_AS_NODE": "1",
        "TERMINAL_EMULATOR": "JetBrains-JediTerm",
    },
    # Languages and their tools.
    **{
        "JAVA_HOME": "/usr/lib/jvm/java-17-openjdk-amd64",
        "JDK_JAVA_OPTIONS": "-Xmx2g",
        "_JAVA_OPTIONS": "-Dfile.encoding=UTF8",
    },
    **{
        "MAVEN_OPTS": "-Xmx1g -XX:+UseG1GC",
        "GRADLE_OPTS": "-Dorg.gradle.daemon=false",
        "SDKMAN_DIR": "/home/u/.sdkman",
    },
    **{
        "SDKMAN_CANDIDATES_API": "https://api.sdkman.io/2",
        "ANDROID_SDK_ROOT": "/home/u/Android/Sdk",
        "FLUTTER_ROOT": "/opt/flutter",
    },
    **{
        "GOPATH": "/home/u/go",
        "GOPROXY": "https://proxy.golang.org,direct",
        "GOPRIVATE": "github.com/acme/*",
        "GOFLAGS": "-mod=mod",
    },
    **{
        "NVM_DIR": "/home/u/.nvm",
        "NVM_BIN": "/home/u/.nvm/versions/node/v18.17.1/bin",
        "NVM_CD_FLAGS": "-q",
        "NVM_INC": "/home/u/.nvm/v18/include",
    },
    **{
        "NODE_OPTIONS": "--max-old-space-size=4096",
        "NODE_ENV": "development",
        "NODE_EXTRA_CA_CERTS": "/etc/ssl/ca.pem",
    },
    **{
        "npm_config_user_agent": "npm/9.6.7 node/v18.17.1 linux x64 workspaces/false",
        "npm_package_json": "/home/u/p/package.json",
    },
    **{
        "npm_package_integrity": "sha512-3Pf8d7Kq2Zr9Wv5Xt1Yb6Nc4Md0Le8Hg7Fj5Sk3Qa1Po9Iu6Yt4Re2Wq==",
        "npm_lifecycle_event": "test",
    },
    **{
        "PNPM_HOME": "/home/u/.local/share/pnpm",
        "VOLTA_HOME": "/home/u/.volta",
        "FNM_MULTISHELL_PATH": "/run/user/1000/fnm_multishells/12345_1690000000000",
    },
    **{
        "VIRTUAL_ENV": "/home/u/.venv",
        "VIRTUAL_ENV_PROMPT": "(venv) ",
        "PYTHONPATH": "/home/u/lib",
        "PYTHONHASHSEED": "0",
    },
    **{
        "PYTHON_VERSION": "3.11.7",
        "PYTHON_SHA256": "18e1aa7e66ff3a58423d59ed22815a6954e53342122c45df20c96877c062b9b7",
    },
    **{
        "CONDA_PREFIX": "/opt/conda",
        "CONDA_DEFAULT_ENV": "base",
        "CONDA_PROMPT_MODIFIER": "(base) ",
        "CONDA_EXE": "/opt/conda/bin/conda",
    },
    **{
        "PIP_INDEX_URL": "https://pypi.example/simple",
        "UV_CACHE_DIR": "/tmp/uv",
        "PYENV_VERSION": "3.12.1",
        "POETRY_ACTIVE": "1",
    },
    **{
        "RUSTUP_TOOLCHAIN": "stable-x86_64-unknown-linux-gnu",
        "RUSTFLAGS": "-C target-cpu=native",
        "CARGO_HOME": "/home/u/.cargo",
    },
    **{
        "GEM_HOME": "/home/u/.gem",
        "RBENV_SHELL": "bash",
        "PERL_MM_OPT": "INSTALL_BASE=/home/u/perl5",
        "LUA_PATH": "./?.lua;;",
    },
    **{
        "DOTNET_ROOT": "/opt/dotnet",
        "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
        "OTP_VERSION": "26.2",
        "OTP_ROOT": "/opt/otp",
    },
    **{
        "CFLAGS": "-O2 -g -D_FORTIFY_SOURCE=2",
        "LDFLAGS": "-L/opt/lib -Wl,-rpath,/opt/lib",
        "CC": "gcc-13",
        "CPATH": "/opt/include",
    },
    **{
        "MAKEFLAGS": " --jobserver-auth=3,4 -j8",
        "PKG_CONFIG_PATH": "/opt/lib/pkgconfig",
        "CMAKE_PREFIX_PATH": "/opt/Qt/6.5.3/gcc_64",
    },
    **{
        "NIX_CFLAGS_COMPILE": f"-isystem {_NIX}-glibc-2.38-dev/include -frandom-seed=0c5cg3mb8z",
        "NIX_LDFLAGS": f"-rpath {_NIX}-shell/lib -L{_NIX}-zlib/lib",
    },
    **{
        "NIX_CC": f"{_NIX}-gcc-wrapper-12.3.0",
        "NIX_PROFILES": "/nix/var/nix/profiles/default /home/u/.nix-profile",
        "buildInputs": f"{_NIX}-a {_NIX}-b",
    },
    **{
        "NIX_BINTOOLS_WRAPPER_TARGET_HOST_x86_64_unknown_linux_gnu": "1",
        "NIX_SSL_CERT_FILE": "/etc/ssl/certs/ca-bundle.crt",
    },
    **{"outputHash": "sha256-3Pf8d7Kq2Zr9Wv5Xt1Yb6Nc4Md0Le8Hg7Fj5Sk3Qa1P=", "SOURCE_DATE_EPOCH": "315532800"},
    **{
        "_ModuleTable001_": "X01vZHVsZVRhYmxlXz17WyJNVHZlcnNpb24iXT0zLFsiY19yZWJ1aWxkVGltZSJdPTg2",
        "LMOD_VERSION": "8.7.37",
        "MODULEPATH": "/opt/modules",
    },
    **{
        "SLURM_NODELIST": "node[001-004]",
        "OMP_NUM_THREADS": "8",
        "CUDA_VISIBLE_DEVICES": "GPU-6f9619ff-8b86-d011-b42d-00cf4fc964ff",
    },
    **{
        "TOKENIZERS_PARALLELISM": "false",
        "MAX_TOKENS": "4096",
        "HF_HOME": "/data/hf",
        "NLTK_DATA": "/usr/share/nltk_data",
        "PROJ_DATA": "/opt/proj",
    },
    # Building, and where things run.
    **{
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_SHA": "ffac537e6cbbf934b08745a378932722df287a53",
        "GITHUB_RUN_ID": "1658821493",
    },
    **{
        "GITHUB_REPOSITORY": "acme/MyProject2-Sub3Thing",
        "GITHUB_WORKSPACE": "/home/runner/work/a/a",
        "GITHUB_REF": "refs/pull/12/merge",
    },
    **{
        "RUNNER_TRACKING_ID": "github_6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        "ImageVersion": "20231030.1.0",
        "RUNNER_TOOL_CACHE": "/opt/cache",
    },
    **{
        "CI_COMMIT_SHA": "ffac537e6cbbf934b08745a378932722df287a53",
        "CI_PIPELINE_ID": "1234",
        "CI_PROJECT_URL": "https://gitlab.example/a/b",
    },
    **{
        "GIT_COMMIT": "ffac537e6cbbf934b08745a378932722df287a53",
        "BUILD_TAG": "jenkins-my-job-42",
        "BUILD_URL": "https://ci.example/job/a/42/",
    },
    **{
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@example.com",
        "AUTHOR": "a",
        "GIT_SSH_COMMAND": "ssh -i ~/.ssh/id_ed25519",
    },
    **{
        "KUBECONFIG": "/home/u/.kube/config:/home/u/.kube/other",
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
    },
    **{
        "DOCKER_HOST": "unix:///run/user/1000/docker.sock",
        "DOCKER_CERT_PATH": "/home/u/.docker",
        "COMPOSE_PROJECT_NAME": "app",
    },
    **{
        "AWS_REGION": "eu-central-1",
        "AWS_PROFILE": "dev",
        "AWS_DEFAULT_OUTPUT": "json",
        "GOOGLE_CLOUD_PROJECT": "acme-dev-123456",
    },
    **{
        "AZURE_TENANT_ID": "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
        "ARM_CLIENT_ID": "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
    },
    **{
        "VAULT_ADDR": "https://vault.example:8200",
        "VAULT_NAMESPACE": "admin",
        "HEROKU_SLUG_COMMIT": "ffac537e6cbbf934b08745a378932722df287a53",
    },
    **{
        "HTTP_PROXY": "http://proxy.example:3128",
        "NO_PROXY": "localhost,127.0.0.1,.example",
        "REMOTE": "ssh://git@git.example/r",
    },
    **{
        "SSL_CERT_FILE": "/etc/ssl/cert.pem",
        "SSL_CERT_DIR": "/etc/ssl/certs",
        "CURL_CA_BUNDLE": "/etc/ssl/ca.crt",
        "REQUESTS_CA_BUNDLE": "/etc/ssl/ca.crt",
    },
    **{
        "DB_HOST": "db.example",
        "DB_PORT": "5432",
        "PGDATABASE": "app",
        "REDIS_HOST": "cache",
        "DB_URL": "postgres://db.example/app",
    },
    **{
        "MAIL_ENCRYPTION": "tls",
        "ENCRYPTION_ENABLED": "true",
        "S3_ENCRYPTION": "aws:kms",
        "DISK_ENCRYPTION": "aes-256-gcm",
    },
    **{
        "ORACLE_SID": "ORCL",
        "ORACLE_HOME": "/opt/oracle",
        "ENCRYPTION_CONFIG": "/etc/app/encryption.yaml",
        "TEST_DATA": "fixtures",
    },
    **{
        "SPRING_APPLICATION_JSON": '{"server": {"port": 8080}}',
        "SPRING_PROFILES_ACTIVE": "dev",
        "RAILS_ENV": "test",
        "APP_ENV": "local",
    },
    **{
        "PYTHONDONTWRITEBYTECODE": "1",
        "DEBIAN_FRONTEND": "noninteractive",
        "DISTRO": "Debian12-Bookworm-AMD64",
        "DEVICE": "iPhone15Pro-iOS17",
    },
    **{
        "PROCESSOR_IDENTIFIER": "Intel64 Family 6 Model 158 Stepping 10, GenuineIntel",
        "ProgramFiles": r"C:\Program Files",
        "COMSPEC": r"C:\WINDOWS\cmd.exe",
    },
    # What only begins or ends like a secret.
    **{"GPIO_PIN": "17", "NUM_TOKS": "5", "SSL_CIPHER": "ECDHE-RSA-AES256-GCM-SHA384", "MODEL": "hf_llama2"},
    **{
        "PRIVATE_NETWORK": "10.0.0.0/8",
        "PLUGIN": "hot-key-bindings-are-fun",
        "FPATH": "/opt/secret:/opt/token:/usr",
    },
    **{
        "PATTERN": "x",
        "PASSAGE": "x",
        "BYPASS": "1",
        "COMPASS_URL": "https://compass.example:8080/a",
        "TIKTOK_REGION": "eu",
    },
    **{
        "RANDOM_SEED": "42",
        "SEED": "7",
        "PW_TEST_REPORTER": "x",
        "PWDEBUG": "1",
        "SAS_HOME": "/opt/sas",
        "SALT_MASTER": "salt.example",
    },
    **{
        "CREDITS": "3",
        "SASS_PATH": "scss",
        "PIN_MEMORY": "1",
        "SIDE": "left",
        "STOCK": "12",
        "PAGE_SIZE": "20",
    },
    **{
        "NOTE": "café \u6c34",
        "PERDURE_CALL": "outer",
        "EMPTY": "",
        "SENTENCE": "A whole sentence, with 3 numbers: 1, 22 and 333.",
    },
}
