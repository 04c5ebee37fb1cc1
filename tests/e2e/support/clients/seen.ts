// What a client saw of the server: the same, whatever generator made it.
export interface Seen {
  integrations: string[];
  flows: number;
  hit: string | null;
  required: string[];
  schemaType: unknown;
  confirmation: boolean;
  read: string;
  stored: string;
  blocked: string;
  sentOnce: boolean;
  replayed: string | null;
  tool: string | undefined;
  started: string;
  waiting: string | undefined;
  approved: boolean;
  sent: string | undefined;
  cancelled: string;
  missing: string;
  keyless: string;
}
