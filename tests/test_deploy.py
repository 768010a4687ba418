"""What is shipped under deploy/: read by the real programs where they are installed."""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trntop.catalog import Page
from trntop.cli import parse
from trntop.collectors.fleet.agents import targets
from trntop.collectors.job_mapping import JobMappingReader
from trntop.core.instances import INSTANCE_TYPES
from trntop.core.settings import Settings, load
from trntop.sources import BY_NAME

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
SYSTEMD = DEPLOY / "systemd"
HOOK = DEPLOY / "slurm" / "job_mapping.sh"
NODES = DEPLOY / "slurm" / "nodes.sh"
SCRAPES = sorted((DEPLOY / "prometheus").glob("scrape-*.yml"))
COMPOSE = DEPLOY / "compose" / "compose.yaml"


def needs(program: str) -> pytest.MarkDecorator:
    missing = shutil.which(program) is None
    return pytest.mark.skipif(missing, reason=f"{program} is not installed")


def run(*command: str | Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


def understood(arguments: list[str]) -> Namespace:
    """What trntop's command line makes of arguments, all of which it must know."""
    return parse(arguments)


# systemd


def directives(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units with a program that this machine has."""
    for unit in (*SYSTEMD.glob("*.service"), *SYSTEMD.glob("*.socket")):
        text = unit.read_text().replace("/opt/trntop/bin/trntop", sys.executable)
        (tmp_path / unit.name).write_text(text)
    return tmp_path


@needs("systemd-analyze")
def test_systemd_takes_the_units(units: Path) -> None:
    done = run("systemd-analyze", "verify", *sorted(units.iterdir()))
    assert done.stdout + done.stderr == ""


@needs("systemd-analyze")
def test_the_service_exposes_little(units: Path) -> None:
    # Tenths: 1.9 when this was written. What keeps it from less is the network, /proc and the
    # devices, which are the agent's purpose.
    for unit in ("trntop.service", "trntop-aggregator.service"):
        run(
            "systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager",
            units / unit,
        )  # fmt: skip


def test_the_service_reaches_what_it_reads() -> None:
    service = directives(SYSTEMD / "trntop.service")
    assert service["DynamicUser"] == ["yes"]
    assert "char-neuron rw" in service["DeviceAllow"]
    for hides in ("PrivateDevices", "ProtectProc", "ProcSubset", "PrivateNetwork", "PrivateUsers"):
        assert hides not in service
    assert {"AF_UNIX", "AF_INET", "AF_INET6"} == set(service["RestrictAddressFamilies"][0].split())
    # A prolog of root's must not write into a folder of the agent's, nor may a restart clear it.
    mapping = settings_of(service).collect.job_mapping
    assert not mapping.startswith(f"/run/{service['RuntimeDirectory'][0]}/")
    assert f"${{TRNTOP_JOB_MAPPING:-{mapping}}}" in HOOK.read_text()


def settings_of(service: dict[str, list[str]]) -> Settings:
    variables = (
        word.split("=", 1) for line in service["Environment"] for word in shlex.split(line)
    )
    return load(None, {name: value for name, value in variables if name.startswith("TRNTOP_")})


def test_the_service_starts_the_exporter_on_its_socket() -> None:
    (command,) = directives(SYSTEMD / "trntop.service")["ExecStart"]
    program, *arguments = command.split()
    assert Path(program).name == "trntop"
    assert understood(arguments).command == "export"
    assert directives(SYSTEMD / "trntop.socket")["ListenStream"] == list(Settings().export.listen)


def test_the_aggregator_starts_with_the_example_of_its_environment(tmp_path: Path) -> None:
    service = directives(SYSTEMD / "trntop-aggregator.service")
    environment = {
        name: value for name, (value,) in directives(SYSTEMD / "trntop-aggregator.env").items()
    }
    (file,) = service["EnvironmentFile"]
    assert f"/etc/{service['ConfigurationDirectory'][0]}/aggregator.env" == file
    (command,) = service["ExecStart"]
    # As systemd does: braces for one word, none for several.
    words = re.sub(r"\$\{(\w+)\}|\$(\w+)", lambda match: environment[match[1] or match[2]], command)
    args = understood(words.split()[1:])
    assert args.command == "export"
    assert targets(args.sources[0], Settings().fleet)
    assert not {name for name in environment if name.startswith("TRNTOP_")}, "a setting"
    # Next to the agent of the same machine: neither its address nor its journal.
    assert args.listen != list(Settings().export.listen)
    (state,) = [
        word.partition("=")[2] for line in service["Environment"] for word in line.split()
        if word.startswith("XDG_STATE_HOME=")
    ]  # fmt: skip
    assert state == f"/var/lib/{service['StateDirectory'][0]}"


# Kubernetes


def kustomized(folder: str) -> dict[str, dict[str, Any]]:
    """The objects by kind."""
    done = run("kubectl", "kustomize", DEPLOY / "kubernetes" / folder)
    assert done.stderr == ""
    objects = list(yaml.safe_load_all(done.stdout))
    found = {manifest["kind"]: manifest for manifest in objects}
    assert len(found) == len(objects)
    return found


def pod_of(objects: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spec of the pods, and of their one container."""
    spec = objects["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}
    return spec, container


@needs("kubectl")
@pytest.mark.parametrize("folder", ["", "unprivileged", "operator", "hyperpod"])
def test_kubernetes_objects_fit_together(folder: str) -> None:
    objects = kustomized(folder)
    spec, container = pod_of(objects)
    everything = {"Namespace", "ServiceAccount", "ConfigMap", "Service", "DaemonSet"}
    assert everything <= set(objects)
    for kind, manifest in objects.items():
        if kind != "Namespace" and not kind.startswith("Cluster"):
            assert manifest["metadata"]["namespace"] == objects["Namespace"]["metadata"]["name"]
    labels = objects["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
    assert objects["DaemonSet"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert objects["Service"]["spec"]["selector"].items() <= labels.items()
    (port,) = container["ports"]
    (service_port,) = objects["Service"]["spec"]["ports"]
    assert service_port["targetPort"] == port["name"]
    assert spec["serviceAccountName"] == objects["ServiceAccount"]["metadata"]["name"]
    assert spec["automountServiceAccountToken"] is (folder == "hyperpod")
    (config,) = [volume["configMap"] for volume in spec["volumes"] if "configMap" in volume]
    assert config["name"] == objects["ConfigMap"]["metadata"]["name"]
    args = understood(container["args"])
    assert args.command == "export"
    assert f":{port['containerPort']}" in args.listen
    assert container["securityContext"]["readOnlyRootFilesystem"]


@needs("kubectl")
def test_on_hyperpod_agents_may_read_nodes_and_know_theirs() -> None:
    objects = kustomized("hyperpod")
    (subject,) = objects["ClusterRoleBinding"]["subjects"]
    account = objects["ServiceAccount"]["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    assert objects["ClusterRole"]["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    ]
    (variable,) = pod_of(objects)[1]["env"]
    assert (variable["name"], variable["valueFrom"]["fieldRef"]["fieldPath"]) == (
        "NODE_NAME", "spec.nodeName",
    )  # fmt: skip


@needs("kubectl")
def test_agents_run_where_neuron_devices_are() -> None:
    spec, _ = pod_of(kustomized(""))
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (label,), (instance_type,) = [
        term["matchExpressions"] for term in affinity["nodeSelectorTerms"]
    ]
    assert label["key"] == "neuron.amazonaws.com/present"
    assert instance_type["values"] == list(INSTANCE_TYPES)


@needs("kubectl")
def test_the_config_map_is_settings(tmp_path: Path) -> None:
    objects = kustomized("")
    _, container = pod_of(objects)
    text = objects["ConfigMap"]["data"]["config.toml"]
    file = tmp_path / "config.toml"
    file.write_text(text)
    settings = load(file, {})
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {f"{settings.collect.root}/{name}" for name in ("proc", "sys", "dev/kmsg")} <= mounts
    # The remark that shows how to turn on TLS, taken at its word.
    shown = "\n".join(line[4:] for line in text.splitlines() if line.startswith("#   "))
    assert tomllib.loads(shown)["export"]
    file.write_text(shown)
    load(file, {})


@needs("kubectl")
def test_the_unprivileged_agents_are_that() -> None:
    spec, container = pod_of(kustomized("unprivileged"))
    context = container["securityContext"]
    assert context["privileged"] is False
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert spec["hostPID"] is False
    paths = [volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume]
    assert not [path for path in paths if path.startswith("/dev")]
    (variable,) = container["env"]
    settings = load(None, {variable["name"]: variable["value"]})
    assert set(settings.collect.disabled) < set(BY_NAME)


@needs("kubectl")
def test_the_operator_scrapes_each_page_once() -> None:
    objects = kustomized("operator")
    monitor = objects["ServiceMonitor"]["spec"]
    assert monitor["selector"]["matchLabels"] == objects["Service"]["metadata"]["labels"]
    assert {endpoint["path"] for endpoint in monitor["endpoints"]} == {page.path for page in Page}
    jobs = set()
    for endpoint in monitor["endpoints"]:
        assert endpoint["port"] == objects["Service"]["spec"]["ports"][0]["name"]
        assert endpoint["honorLabels"]
        rules = {rule["targetLabel"]: rule for rule in endpoint["relabelings"]}
        jobs.add(rules.get("job", {}).get("replacement"))
    # `up` of two pages under one job and instance would be one series.
    assert len(jobs) == len(monitor["endpoints"])


@needs("kubectl")
def test_the_aggregator_finds_the_agents_by_their_service() -> None:
    done = run("kubectl", "kustomize", DEPLOY / "kubernetes" / "aggregator")
    objects = {
        (manifest["kind"], manifest["metadata"]["name"]): manifest
        for manifest in yaml.safe_load_all(done.stdout)
    }
    agents, own = objects["Service", "trntop"], objects["Service", "trntop-aggregator"]
    deployment = objects["Deployment", "trntop-aggregator"]["spec"]
    spec = deployment["template"]["spec"]
    (container,) = spec["containers"]
    args = understood(container["args"])
    namespace = agents["metadata"]["namespace"]
    assert args.sources == [f"dns:{agents['metadata']['name']}.{namespace}.svc"]
    # A headless service, so that the name has the addresses of all agents; their port is ours.
    assert agents["spec"]["clusterIP"] == "None"
    assert agents["spec"]["publishNotReadyAddresses"]
    assert agents["spec"]["ports"][0]["port"] == Settings().fleet.port
    labels = deployment["template"]["metadata"]["labels"]
    assert own["spec"]["selector"] == deployment["selector"]["matchLabels"] == labels
    assert not agents["spec"]["selector"].items() <= labels.items()
    assert args.state in {mount["mountPath"] for mount in container["volumeMounts"]}
    (claim,) = [
        volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]
        if "persistentVolumeClaim" in volume
    ]  # fmt: skip
    assert ("PersistentVolumeClaim", claim) in objects
    assert spec["serviceAccountName"] == objects["ServiceAccount", "trntop"]["metadata"]["name"]
    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert (
        container["image"]
        == objects["DaemonSet", "trntop"]["spec"]["template"]["spec"]["containers"][0]["image"]
    )


# Prometheus


AGGREGATOR = DEPLOY / "prometheus" / "aggregator.yml"


def test_only_incidents_are_scraped_from_an_aggregator_next_to_agents() -> None:
    """Its other series are the agents', and would count twice."""
    (job,) = yaml.safe_load(AGGREGATOR.read_text())["scrape_configs"]
    assert job["job_name"].startswith("trntop")
    (rule,) = job["metric_relabel_configs"]
    kept = re.compile(rule["regex"])
    page = (ROOT / "tests/exporters/metrics/golden/efa-degraded.prom").read_text()
    names = set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)) | {"trntop_aggregated"}
    assert {name for name in names if kept.fullmatch(name) and not name.startswith("process_")} == {
        "trn_incidents", "trn_incident_active", "trn_incident_opened_timestamp_seconds",
        "trntop_build_info", "trntop_nodes", "trntop_aggregated", "trntop_series_dropped",
    }  # fmt: skip
    shown = yaml.safe_load((COMPOSE.parent / "prometheus.yml").read_text())["scrape_configs"]
    (demo,) = [line for line in shown if line["job_name"] == job["job_name"]]
    for name in ("relabel_configs", "metric_relabel_configs"):
        assert demo[name] == job[name]
    # Under the job of the agents, whose alerts on the same incident are then the same.
    (rule,) = job["relabel_configs"]
    agents = yaml.safe_load((AGGREGATOR.parent / "scrape-static.yml").read_text())
    assert rule == {"target_label": "job", "replacement": agents["scrape_configs"][0]["job_name"]}


@pytest.mark.parametrize("file", SCRAPES, ids=lambda file: file.stem)
def test_each_page_is_a_job(file: Path) -> None:
    document = yaml.safe_load(file.read_text())
    # Nothing else: the files can be included with `scrape_config_files`.
    assert list(document) == ["scrape_configs"]
    jobs = document["scrape_configs"]
    assert [job.get("metrics_path", "/metrics") for job in jobs] == [page.path for page in Page]
    assert len({job["job_name"] for job in jobs}) == len(jobs)
    (how,) = {key for key in jobs[0] if key.endswith("_configs")} - {"relabel_configs"}
    assert all(job[how] == jobs[0][how] for job in jobs)


@needs("promtool")
@pytest.mark.parametrize("file", [*SCRAPES, AGGREGATOR], ids=lambda file: file.stem)
def test_prometheus_takes_the_scrape_configs(file: Path, tmp_path: Path) -> None:
    document = yaml.safe_load(file.read_text())
    for job in document["scrape_configs"]:
        # Debian's Prometheus is built without it.
        if job.pop("kubernetes_sd_configs", None):
            job["static_configs"] = [{"targets": ["pod:10042"]}]
    copy = file
    if "kubernetes_sd_configs" in file.read_text():
        copy = tmp_path / file.name
        copy.write_text(json.dumps(document))
    assert "SUCCESS" in run("promtool", "check", "config", copy).stdout


def test_ec2_finds_every_trainium() -> None:
    (file,) = [file for file in SCRAPES if file.stem == "scrape-ec2"]
    (ec2,) = yaml.safe_load(file.read_text())["scrape_configs"][0]["ec2_sd_configs"]
    filters = {row["name"]: row["values"] for row in ec2["filters"]}
    (pattern,) = filters["instance-type"]
    training = {name for name in INSTANCE_TYPES if not name.startswith("inf")}
    assert set(fnmatch.filter(INSTANCE_TYPES, pattern)) == training


# The demo with compose


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


def mounts(service: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """The folders and files of the repository that a service sees, and where."""
    for volume in service.get("volumes", []):
        source, target, *_ = volume.split(":")
        if source.startswith("."):
            yield (COMPOSE.parent / source).resolve(), target


def test_compose_names_what_exists() -> None:
    document = yaml.safe_load(COMPOSE.read_text())
    for name, service in document["services"].items():
        assert re.fullmatch(r"[a-z/]+:(demo|v?\d+\.\d+\.\d+)", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert set(service.get("depends_on", [])) <= set(document["services"])
        for path, _ in mounts(service):
            assert path.exists(), path
    build = document["services"]["trntop"]["build"]
    assert (COMPOSE.parent / build["context"] / build["dockerfile"]).is_file()
    assert (COMPOSE.parent / build["context"]).resolve() == ROOT
    assert understood(document["services"]["trntop"]["command"]).sources == ["sim:demo"]
    aggregator = understood(document["services"]["aggregator"]["command"])
    assert aggregator.sources == ["http://trntop:10042"]
    assert f"incidents:{aggregator.state}" in document["services"]["aggregator"]["volumes"]


def test_compose_is_taken_by_docker() -> None:
    docker = shutil.which("docker")
    if (
        docker is None
        or subprocess.run([docker, "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("docker compose is not installed")
    run(docker, "compose", "-f", COMPOSE, "config", "--quiet")


@needs("promtool")
def test_the_demos_prometheus_takes_its_files(tmp_path: Path) -> None:
    for path, target in mounts(services()["prometheus"]):
        shutil.copy(path, tmp_path / Path(target).name)
    done = run("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert "1 rule files found" in done.stdout
    document = yaml.safe_load((tmp_path / "prometheus.yml").read_text())
    *pages, aggregator = document["scrape_configs"]
    assert [job.get("metrics_path", "/metrics") for job in pages] == [page.path for page in Page]
    assert aggregator["job_name"] == "trntop-aggregator"
    addressed = [*document["scrape_configs"], *document["alerting"]["alertmanagers"]]
    for manifest in addressed:
        (target,) = manifest["static_configs"][0]["targets"]
        service, _, port = target.partition(":")
        assert any(shown.endswith(f":{port}") for shown in services()[service]["ports"])


@needs("amtool")
def test_alertmanager_takes_its_file() -> None:
    run("amtool", "check-config", DEPLOY / "compose" / "alertmanager.yml")


def test_alerts_of_the_demo_reach_a_receiver() -> None:
    document = yaml.safe_load((DEPLOY / "compose" / "alertmanager.yml").read_text())
    assert document["route"]["receiver"] in {receiver["name"] for receiver in document["receivers"]}


def test_grafana_finds_its_dashboards() -> None:
    service = services()["grafana"]
    sources = {target: path for path, target in mounts(service)}
    folder = sources["/etc/grafana/provisioning"]
    (provider,) = yaml.safe_load((folder / "dashboards/trntop.yaml").read_text())["providers"]
    dashboards = sources[provider["options"]["path"]]
    home = Path(service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert (dashboards / home.name).is_file()
    assert str(home.parent) == provider["options"]["path"]
    (source,) = yaml.safe_load((folder / "datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"]


# The image


def instructions() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    text = (DEPLOY / "container" / "Containerfile").read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            found.setdefault(name, []).append(rest.strip())
    return found


def test_the_image_is_pinned_and_runs_as_nobody() -> None:
    found = instructions()
    (base,) = found["ARG"]
    assert re.fullmatch(r"BASE=python:3\.\d+\.\d+-slim-[a-z]+", base)
    assert all(source.startswith("${BASE}") for source in found["FROM"])
    (user,) = found["USER"]
    assert all(int(part) > 0 for part in user.split(":"))
    (check,) = found["HEALTHCHECK"]
    _, dash_c, code = json.loads(check[check.index("[") :])
    assert dash_c == "-c"
    compile(code, "HEALTHCHECK", "exec")
    (address,) = Settings().export.listen
    assert f"http://{address}/-/healthy" in code


def test_the_image_has_all_of_the_package() -> None:
    found = instructions()
    copied = {word for line in found["COPY"] if "--from" not in line for word in line.split()[:-1]}
    assert all((ROOT / word).exists() for word in copied)
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert set(hatch["targets"]["wheel"]["only-include"]) <= copied
    assert json.loads(found["ENTRYPOINT"][0]) == ["trntop"]
    assert understood(json.loads(found["CMD"][0])).command == "export"


# Slurm


class Slurm:
    """A slurmd that runs the hook as slurmd does: with next to no environment."""

    def __init__(self, folder: Path, shell: str = "/bin/sh") -> None:
        self.folder = folder
        self._shell = shell

    def start(self, context: str, job: str, **variables: str) -> "subprocess.Popen[str]":
        environment = {
            "TRNTOP_JOB_MAPPING": str(self.folder),
            "SLURM_SCRIPT_CONTEXT": context,
            "SLURM_JOB_ID": job,
            **variables,
        }
        return subprocess.Popen(
            [self._shell, HOOK], env=environment, stderr=subprocess.PIPE, text=True
        )

    def __call__(self, context: str, job: str, **variables: str) -> str:
        """What the hook complains of; it never fails."""
        process = self.start(context, job, **variables)
        _, complaint = process.communicate(timeout=30)
        assert process.returncode == 0
        return complaint

    def prolog(self, job: str, **variables: str) -> str:
        return self("prolog_slurmd", job, **variables)

    def epilog(self, job: str, **variables: str) -> str:
        return self("epilog_slurmd", job, **variables)

    @property
    def mapping(self) -> dict[str, list[str]]:
        return {
            file.name: file.read_text().split("\n")[:-1]
            for file in sorted(self.folder.iterdir())
            if not file.name.startswith(".")
        }


@pytest.fixture(params=["sh", "bash"])
def slurm(request: pytest.FixtureRequest, tmp_path: Path) -> Slurm:
    shell = shutil.which(request.param)
    if shell is None or shutil.which("flock") is None:
        pytest.skip(f"{request.param} or flock is not installed")
    return Slurm(tmp_path / "jobs", shell)


@needs("shellcheck")
@pytest.mark.parametrize("hook", [HOOK, NODES], ids=lambda hook: hook.stem)
def test_the_hook_is_clean(hook: Path) -> None:
    run("shellcheck", hook)


def test_an_aggregator_reads_the_nodes_of_running_jobs(tmp_path: Path) -> None:
    def listed(*lines: str) -> str:
        """The file after a hook, if squeue prints these lines."""
        squeue = tmp_path / "squeue"
        squeue.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
        squeue.chmod(0o755)
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = run(NODES, env={"PATH": path, "TRNTOP_NODES_FILE": str(tmp_path / "nodes")})
        assert done.stderr == ""
        return (tmp_path / "nodes").read_text()

    assert listed("trn-[003-004]", "trn-[001-002]", "", "trn-[003-004]") == (
        "trn-[001-002]\ntrn-[003-004]\n"
    )
    assert listed("trn-007") == "trn-007\n"
    # Without jobs the previous nodes stay.
    assert listed() == "trn-007\n"
    assert (tmp_path / "nodes").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nodes", "squeue"]


def test_the_hook_can_be_run() -> None:
    assert os.access(HOOK, os.X_OK)
    assert HOOK.read_text().startswith("#!/bin/sh\n")


def test_a_job_comes_and_goes(slurm: Slurm) -> None:
    assert slurm.prolog("4711") == ""
    assert slurm.mapping == {"all": ["4711"]}
    assert (slurm.folder / "all").stat().st_mode & 0o777 == 0o644
    assert slurm.epilog("4711") == ""
    assert slurm.mapping == {}


def test_jobs_share_a_node(slurm: Slurm) -> None:
    slurm.prolog("12", SLURM_JOB_GPUS="0,2-3")
    slurm.prolog("9", SLURM_JOB_GPUS="3,15")
    slurm.prolog("9", SLURM_JOB_GPUS="3,15")
    assert slurm.mapping == {"0": ["12"], "15": ["9"], "2": ["12"], "3": ["9", "12"]}
    # An epilog has no list of devices.
    slurm.epilog("12")
    assert slurm.mapping == {"15": ["9"], "3": ["9"]}
    slurm.epilog("1")
    slurm.epilog("90")
    slurm.epilog("9")
    assert slurm.mapping == {}


def test_the_agent_reads_what_the_hook_writes(slurm: Slurm) -> None:
    slurm.prolog("12", SLURM_JOB_GPUS="0,15")
    slurm.prolog("9")
    payload = json.loads(JobMappingReader(slurm.folder)())
    assert payload["files"] == {"0": ["12"], "15": ["12"], "all": ["9"]}
    assert payload["errors"] == []
    slurm.epilog("12")
    slurm.epilog("9")
    assert json.loads(JobMappingReader(slurm.folder)())["files"] == {}


def test_a_job_without_devices_where_they_are_given_out(slurm: Slurm) -> None:
    slurm.prolog("5", TRNTOP_WITHOUT_DEVICES="none")
    assert slurm.mapping == {}


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path / "jobs")
    jobs = [str(job) for job in range(100, 116)]
    for context, expected in (("prolog_slurmd", {"0": jobs, "1": jobs}), ("epilog_slurmd", {})):
        started = [slurm.start(context, job, SLURM_JOB_GPUS="0-1") for job in jobs]
        complaints = [process.communicate(timeout=60)[1] for process in started]
        assert set(complaints) == {""}
        assert slurm.mapping == expected


@pytest.mark.parametrize(
    "job", ["", "../../etc/passwd", "1;touch x", "$(touch x)", "-1", "1\n2", "9" * 20]
)
def test_no_job_id_is_no_job(slurm: Slurm, job: str) -> None:
    assert "no job id" in slurm.prolog(job)
    assert not slurm.folder.exists()


@pytest.mark.parametrize(
    "devices", ["../x", "$(touch x)", "*", "3-1", "1-99999", "08", "a", "-", ","]
)
def test_what_is_no_device_is_left_out(slurm: Slurm, devices: str) -> None:
    assert slurm.prolog("1", SLURM_JOB_GPUS=f"0,{devices}") == ""
    assert slurm.mapping == {"0": ["1"]}


def test_the_hook_never_fails(slurm: Slurm, tmp_path: Path) -> None:
    assert "neither prolog_slurmd nor epilog_slurmd" in slurm("prolog_task", "1")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    slurm.folder.symlink_to(elsewhere)
    assert "no folder of" in slurm.prolog("1")
    assert list(elsewhere.iterdir()) == []
    slurm.folder.unlink()
    slurm.folder.write_text("")
    assert "no folder of" in slurm.prolog("1")
