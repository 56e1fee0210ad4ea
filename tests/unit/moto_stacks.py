"""CloudFormation and Auto Scaling for tests: moto's, taught what the real ones refuse."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # its stubs would be one more package for one file
from moto.acm.models import acm_backends
from moto.autoscaling.models import autoscaling_backends
from moto.autoscaling.responses import AutoScalingResponse
from moto.cloudformation import parsing
from moto.cloudformation.exceptions import CloudFormationError, ValidationError
from moto.cloudformation.models import CloudFormationBackend, cloudformation_backends
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult
from moto.elbv2.models import FakeLoadBalancer, elbv2_backends
from moto.iam.models import iam_backends
from moto.route53 import models as route53
from moto.secretsmanager.models import secretsmanager_backends
from test_cloudformation import _Loader

ZONE = "Z0123456789ABCDEFGHIJ"


class InsufficientCapabilities(CloudFormationError):  # noqa: N818 - AWS's name
    """A template that makes roles needs the caller's consent."""

    code = "InsufficientCapabilitiesException"


class Secret:
    """AWS::SecretsManager::Secret with a generated value, as moto's resources are."""

    def __init__(self, arn: str) -> None:
        self.physical_resource_id = arn

    def is_created(self) -> bool:
        return True

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: Any,  # noqa: ANN401 - any YAML
        account_id: str,
        region_name: str,
        **_: Any,  # noqa: ANN401
    ) -> Secret:
        how = cloudformation_json["Properties"]["GenerateSecretString"]
        backend = secretsmanager_backends[account_id][region_name]
        generated = backend.get_random_password(
            how["PasswordLength"], "", exclude_numbers=False,
            exclude_punctuation=how["ExcludePunctuation"],
            exclude_uppercase=how["ExcludeUppercase"], exclude_lowercase=False,
            include_space=False, require_each_included_type=how["RequireEachIncludedType"],
        )  # fmt: skip
        value = json.loads(how["SecretStringTemplate"]) | {
            how["GenerateStringKey"]: json.loads(generated)["RandomPassword"]
        }
        made = backend.create_secret(
            resource_name, json.dumps(value), None, None, None, None, None, [],
            force_overwrite=False)  # fmt: skip
        return cls(json.loads(made)["ARN"])


def forget() -> None:
    """An account in which nobody has made anything yet."""
    for backend in (acm_backends, autoscaling_backends, cloudformation_backends, elbv2_backends,
                    iam_backends, route53.route53_backends, secretsmanager_backends):  # fmt: skip
        backend.reset()


def teach(patch: pytest.MonkeyPatch) -> list[str]:
    """Have moto check parameters and consent as AWS does; groups that are refreshed are named."""
    change = CloudFormationResponse.create_change_set

    def create_change_set(self: CloudFormationResponse) -> ActionResult:
        _check(
            yaml.load(self._get_param("TemplateBody"), Loader=_Loader),  # noqa: S506 - its functions
            {each["ParameterKey"]: each for each in self._get_param("Parameters", [])},
            self._get_param("Capabilities", []),
        )
        done: ActionResult = change(self)
        return done

    clean = parsing.clean_json

    def clean_json(node: Any, resources: Any) -> Any:  # noqa: ANN401 - any YAML
        """AWS::NoValue in a list is no item of it."""
        done = clean(node, resources)
        return [item for item in done if item is not None] if isinstance(done, list) else done

    execute = CloudFormationBackend.execute_change_set

    def execute_change_set(self: CloudFormationBackend, *words: Any, **named: Any) -> None:  # noqa: ANN401
        """A stack that a change set has made has outputs too."""
        execute(self, *words, **named)
        for stack in self.stacks.values():
            stack._parse_template()
            stack.output_map = stack._create_output_map()

    attribute = FakeLoadBalancer.get_cfn_attribute

    def get_cfn_attribute(self: FakeLoadBalancer, name: str) -> Any:  # noqa: ANN401
        return ZONE if name == "CanonicalHostedZoneID" else attribute(self, name)

    refreshed: list[str] = []

    def start_instance_refresh(self: AutoScalingResponse) -> ActionResult:
        name = self._get_param("AutoScalingGroupName")
        if name not in autoscaling_backends[self.current_account][self.region].autoscaling_groups:
            raise ValidationError(message=f"AutoScalingGroup name not found - {name}")
        refreshed.append(name)
        return ActionResult({"InstanceRefreshId": "08b91cf7-8fa6-48af-b6a6-d227f40f1b9b"})

    patch.setattr(CloudFormationResponse, "create_change_set", create_change_set)
    patch.setattr(parsing, "clean_json", clean_json)
    patch.setattr(CloudFormationBackend, "execute_change_set", execute_change_set)
    patch.setattr(FakeLoadBalancer, "get_cfn_attribute", get_cfn_attribute)
    patch.setattr(route53, "create_route53_zone_id", lambda **_: ZONE)  # moto's are no ids of AWS's
    patch.setitem(parsing.get_model_map(), "AWS::SecretsManager::Secret", Secret)
    patch.setattr(
        AutoScalingResponse, "start_instance_refresh", start_instance_refresh, raising=False
    )
    return refreshed


def _check(template: dict[str, Any], given: dict[str, Any], consent: list[str]) -> None:
    declared = template["Parameters"]
    if unknown := given.keys() - declared.keys():
        raise ValidationError(message=f"Parameters: {sorted(unknown)} do not exist")
    for name, parameter in declared.items():
        if name not in given and "Default" not in parameter:
            raise ValidationError(message=f"Parameters: [{name}] must have values")
        value = str(given.get(name, {}).get("ParameterValue", parameter.get("Default")))
        if not re.fullmatch(parameter.get("AllowedPattern", ".*"), value):
            raise ValidationError(message=f"Parameter {name} must match its pattern")
        if value not in map(str, parameter.get("AllowedValues", [value])):
            raise ValidationError(message=f"Parameter {name} must be one of its values")
    if "AWS::IAM::Role" in json.dumps(template["Resources"], default=str) and (
        "CAPABILITY_IAM" not in consent
        and any(
            "Condition" not in one
            for one in template["Resources"].values()
            if one["Type"] == "AWS::IAM::Role"
        )
    ):
        raise InsufficientCapabilities("Requires capabilities : [CAPABILITY_IAM]")
