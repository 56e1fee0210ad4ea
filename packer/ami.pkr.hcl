# The AMI: what it is made from, on which machine, and what it will be called. Everything here is
# understood by every Packer since 1.6.6. What only current ones know is in build.pkr.hcl; what
# takes its place for an old one is in packer-1.6/, so that the tests run this file for real with
# the Packer that Debian has.
#
#   packer init packer/ && packer build -var tarball=build/infinity.tar.gz packer/
#   make ami       the same, and all checks before and after

variable "tarball" {
  type        = string
  description = "This repository at one commit: git archive --output build/infinity.tar.gz HEAD."
  default     = "build/infinity.tar.gz"
}

variable "commit" {
  type        = string
  description = "The commit in the tarball, for the image's manifest."
  default     = "unknown"
}

variable "version" {
  type        = string
  description = "Of the product, in the AMI's name."
  default     = "0.1.0"
}

variable "build_id" {
  type        = string
  description = "Names this build's temporary things, and tags all it makes."
  default     = "by-hand"
}

variable "region" {
  type        = string
  description = "AWS Marketplace takes AMIs from us-east-1."
  default     = "us-east-1"
}

variable "source_name" {
  type        = string
  description = "Name filter of the Ubuntu image to start from."
  default     = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"
}

variable "source_owner" {
  type        = string
  description = "The account that publishes it: Canonical."
  default     = "099720109477"
}

variable "marketplace_account" {
  type        = string
  description = "AWS Marketplace's own account, which copies the AMI and its snapshot."
  default     = "679593333241"
}

variable "subnet_id" {
  type        = string
  description = "Where the build instance runs; the default VPC when empty."
  default     = ""
}

variable "ssh_cidr" {
  type        = string
  description = "From where the build instance may be reached while it is provisioned."
  default     = "0.0.0.0/0"
}

variable "phases" {
  type        = string
  description = "Phases of provision.d to run; all when empty."
  default     = ""
}

variable "environment" {
  type        = list(string)
  description = "More environment for provision.sh, such as WHEELHOUSE=/folder."
  default     = []
}

variable "endpoint" {
  type        = string
  description = "Another EC2 endpoint, for tests."
  default     = ""
}

variable "manifest" {
  type        = string
  description = "Where Packer writes which AMI it made."
  default     = "build/packer-manifest.json"
}

locals {
  name = "infinity-${var.version}-ubuntu-24.04-amd64-${var.build_id}"
  tags = {
    Name              = local.name
    "infinity:build"  = var.build_id
    "infinity:commit" = var.commit
    "infinity:source" = "{{ .SourceAMI }}"
  }
  run_tags = {
    Name             = "infinity-build-${var.build_id}"
    "infinity:build" = var.build_id
  }
  # In memory, so that nothing of the build is ever on the disk that becomes the image.
  folder = "/run/infinity-build"
  provision = [
    "set -eu",
    "tar -C ${local.folder} -xzf ${local.folder}/infinity.tar.gz",
    "if command -v cloud-init >/dev/null; then cloud-init status --wait >/dev/null || true; fi",
    "${local.folder}/packer/provision.sh ${var.phases}",
    "${local.folder}/packer/golden.sh",
    "${local.folder}/packer/clean.sh",
  ]
  environment = concat(["COMMIT=${var.commit}"], var.environment)
}

source "amazon-ebs" "infinity" {
  region        = var.region
  instance_type = "m5.large"
  subnet_id     = var.subnet_id

  source_ami_filter {
    owners      = [var.source_owner]
    most_recent = true
    filters = {
      name                = var.source_name
      architecture        = "x86_64"
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
  }

  ami_name                = local.name
  ami_description         = "Infinity embeddings API on Ubuntu 24.04 (amd64), version ${var.version}"
  ami_virtualization_type = "hvm"
  ena_support             = true
  encrypt_boot            = false
  ami_users               = [var.marketplace_account]
  snapshot_users          = [var.marketplace_account]
  tags                    = local.tags
  snapshot_tags           = local.tags
  run_tags                = local.run_tags
  run_volume_tags         = local.run_tags

  launch_block_device_mappings {
    device_name           = "/dev/sda1"
    volume_type           = "gp3"
    volume_size           = 20
    iops                  = 3000
    throughput            = 125
    encrypted             = false
    delete_on_termination = true
  }

  communicator                          = "ssh"
  ssh_username                          = "ubuntu"
  ssh_timeout                           = "10m"
  ssh_clear_authorized_keys             = true
  temporary_key_pair_type               = "ed25519"
  temporary_key_pair_name               = "infinity-build-${var.build_id}"
  temporary_security_group_source_cidrs = [var.ssh_cidr]

  custom_endpoint_ec2        = var.endpoint
  skip_region_validation     = var.endpoint != ""
  skip_credential_validation = var.endpoint != ""
  skip_metadata_api_check    = var.endpoint != ""
}
