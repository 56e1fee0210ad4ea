"""The CloudFormation templates: cfn-lint, and what they make of their parameters.

CloudFormation itself is not to be had here (moto's lacks several of the resource types), so the
functions that the templates use are evaluated below, as its reference defines them.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # its stubs would be one more package for one file
from lint_tools import REPO, tool

from appliance import fleet
from appliance.run import run

TEMPLATES = sorted((REPO / "cloudformation").glob("*.yaml"))
GIVEN = {"ImageId": "ami-1", "KeyName": "key", "VpcId": "vpc-1", "SubnetId": "subnet-1"}
HOST = "embeddings.example.com"
NOTHING = object()


class Stack:
    """A template with its parameters: ``resources`` as CloudFormation would make them.

    References to other resources stay as ``<Name>`` or ``<Name.Attribute>``.
    """

    def __init__(self, name: str, **parameters: str) -> None:
        text = (REPO / "cloudformation" / name).read_text()
        self.template = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader with functions
        declared = self.template["Parameters"]
        assert set(parameters) <= set(declared)
        defaults = {key: value["Default"] for key, value in declared.items() if "Default" in value}
        self.parameters = {**defaults, **GIVEN, **parameters}
        self.resources: dict[str, Any] = {
            name: self.value(resource)
            for name, resource in self.template["Resources"].items()
            if "Condition" not in resource or self.holds(resource["Condition"])
        }

    def holds(self, condition: str) -> bool:
        return bool(self.value(self.template["Conditions"][condition]))

    def value(self, node: Any) -> Any:  # noqa: ANN401 - any YAML
        if isinstance(node, list):
            return [value for item in node if (value := self.value(item)) is not NOTHING]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if function := getattr(self, f"_{name.removeprefix('Fn::').lower()}", None):
                return function(argument)
        pairs = {key: self.value(item) for key, item in node.items()}
        return {key: item for key, item in pairs.items() if item is not NOTHING}

    def _ref(self, name: str) -> Any:  # noqa: ANN401
        if name == "AWS::NoValue":
            return NOTHING
        return self.parameters.get(name, f"<{name}>")

    def _getatt(self, name: str) -> str:
        return f"<{name}>"

    def _sub(self, text: str) -> str:
        return re.sub(r"\$\{([\w:.]+)\}", lambda found: str(self._ref(found[1])), text)

    def _if(self, argument: list[Any]) -> Any:  # noqa: ANN401
        condition, yes, no = argument
        return self.value(yes if self.holds(condition) else no)

    def _equals(self, argument: list[Any]) -> bool:
        one, two = map(self.value, argument)
        return bool(one == two)

    def _not(self, argument: list[Any]) -> bool:
        return not self.value(argument[0])

    def _and(self, argument: list[Any]) -> bool:
        return all(map(self.value, argument))

    def _or(self, argument: list[Any]) -> bool:
        return any(map(self.value, argument))

    def _condition(self, name: str) -> bool:
        return self.holds(name)

    def _join(self, argument: list[Any]) -> str:
        glue, parts = argument
        return str(glue).join(map(str, self.value(parts)))

    def _base64(self, argument: Any) -> Any:  # noqa: ANN401
        return self.value(argument)

    def open_ports(self, group: str) -> set[tuple[int, str]]:
        """(port, source) of every rule that lets somebody in."""
        rules = self.resources[group]["Properties"]["SecurityGroupIngress"]
        return {
            (rule["FromPort"], rule.get("CidrIp") or rule["SourceSecurityGroupId"])
            for rule in rules
        }

    def properties(self, resource: str) -> Any:  # noqa: ANN401
        return self.resources[resource]["Properties"]


class _Loader(yaml.SafeLoader):  # type: ignore[misc] # as above
    """YAML with CloudFormation's short forms."""


def _short_form(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        return {name: loader.construct_scalar(node)}
    assert isinstance(node, yaml.SequenceNode)
    return {name: loader.construct_sequence(node, deep=True)}


_Loader.add_multi_constructor("!", _short_form)


def test_cfn_lint_finds_nothing() -> None:
    assert [path.name for path in TEMPLATES] == ["fleet.yaml", "instance.yaml"]
    done = run([tool("cfn-lint", "it is in the dev lock"), *TEMPLATES], check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["instance.yaml", "fleet.yaml"])
def test_instance_metadata_is_version_2_only(name: str) -> None:
    data = Stack(name).properties("LaunchTemplate")["LaunchTemplateData"]
    assert data["MetadataOptions"]["HttpTokens"] == "required"


def test_by_default_nobody_gets_to_an_instance() -> None:
    stack = Stack("instance.yaml")
    assert stack.open_ports("SecurityGroup") == set()
    assert set(stack.resources) == {"SecurityGroup", "LaunchTemplate", "Instance"}
    assert "UserData" not in stack.properties("Instance")


def test_an_instance_is_open_to_whom_it_is_told() -> None:
    stack = Stack(
        "instance.yaml", ClientCidr="10.0.0.0/16", SshCidr="198.51.100.7/32", ElasticIp="yes"
    )
    assert stack.open_ports("SecurityGroup") == {
        (443, "10.0.0.0/16"),
        (80, "10.0.0.0/16"),
        (22, "198.51.100.7/32"),
    }
    assert "Address" in stack.resources


def test_an_instance_is_told_its_name_and_where_to_publish() -> None:
    stack = Stack("instance.yaml", HostName=HOST, HostedZoneId="Z1", PublishCredentials="yes")
    files = yaml.safe_load(stack.properties("Instance")["UserData"])["write_files"]
    assert files == [
        {"path": "/etc/cloudimg/infinity-hostname", "content": HOST},
        {"path": "/etc/infinity/fleet.env", "content": "CREDENTIALS_SECRET_ARN=<Credentials>"},
    ]
    assert stack.properties("Record")["ResourceRecords"] == ["<Instance.PrivateIp>"]
    assert stack.properties("Instance")["IamInstanceProfile"] == "<InstanceProfile>"


def test_only_the_load_balancer_gets_to_a_fleets_instances() -> None:
    assert Stack("fleet.yaml").open_ports("BalancerSecurityGroup") == set()
    stack = Stack("fleet.yaml", ClientCidr="10.0.0.0/16")
    assert stack.open_ports("BalancerSecurityGroup") == {(443, "10.0.0.0/16")}
    assert stack.open_ports("InstanceSecurityGroup") == {(443, "<BalancerSecurityGroup>")}


def test_a_fleets_instances_are_told_their_name_and_secret() -> None:
    data = Stack("fleet.yaml", HostName=HOST).properties("LaunchTemplate")["LaunchTemplateData"]
    assert data["UserData"].startswith("#cloud-config\n")
    assert yaml.safe_load(data["UserData"])["write_files"] == [
        {"path": "/etc/cloudimg/infinity-hostname", "content": HOST},
        {"path": "/etc/infinity/fleet.env", "content": "FLEET_SECRET_ARN=<SharedSecret>"},
    ]


def test_a_fleets_generated_secret_is_one_that_an_instance_takes() -> None:
    how = Stack("fleet.yaml").properties("SharedSecret")["GenerateSecretString"]
    assert how["ExcludeUppercase"]
    assert how["ExcludePunctuation"]
    assert how["SecretStringTemplate"] == "{}"
    generated = "0a" * (how["PasswordLength"] // 2)
    shared = fleet.parsed(f'{{"{how["GenerateStringKey"]}": "{generated}"}}')
    assert shared.api_keys == (("unnamed", generated),)


def test_a_target_is_healthy_when_a_trial_embedding_came_back() -> None:
    targets = Stack("fleet.yaml").properties("Targets")
    assert (targets["HealthCheckProtocol"], targets["HealthCheckPath"]) == ("HTTPS", "/readyz")
    assert Stack("fleet.yaml").properties("Group")["HealthCheckType"] == "ELB"
